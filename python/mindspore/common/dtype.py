"""Element types. `str(float32)` is `Float32`."""

from __future__ import annotations

import numpy

from .._missing import missing


__all__ = ["float16", "half", "float32", "single", "float_", "float64", "double", "bfloat16", "int32", "int64", "int_",
           "uint8", "bool_", "dtype_to_nptype"]


class Type:
    """An element type; the same type is the same object."""

    def __init__(self, shown: str, name: str):
        self.shown = shown
        self.name = name  # as numpy has it; bfloat16 has no counterpart there

    def __repr__(self) -> str:
        return self.shown

    def __reduce__(self):
        return _called, (self.name,)


float16 = half = Type("Float16", "float16")
float32 = single = float_ = Type("Float32", "float32")
float64 = double = Type("Float64", "float64")
bfloat16 = Type("BFloat16", "bfloat16")
int32 = Type("Int32", "int32")
int64 = int_ = Type("Int64", "int64")
uint8 = Type("UInt8", "uint8")
bool_ = Type("Bool", "bool")

_types = {t.name: t for t in (float16, float32, float64, bfloat16, int32, int64, uint8, bool_)}
_python = {float: float32, int: int64, bool: bool_}


def _called(name: str) -> Type:
    return _types[name]


def type_of(said) -> Type:
    """A type by itself, by numpy's type, Python's, or a name. Raises: TypeError."""
    if isinstance(said, Type):
        return said
    if said in _python:
        return _python[said]
    name = str(said).lower() if isinstance(said, str) else numpy.dtype(said).name
    if name not in _types:
        raise TypeError(f"dtype {said!r} is not in this front end; there are " + ", ".join(_types))
    return _types[name]


def dtype_to_nptype(dtype: Type):
    """Numpy's type; of bfloat16 that in which it can be looked at."""
    return numpy.float32 if dtype is bfloat16 else numpy.dtype(dtype.name).type


__getattr__ = missing("mindspore.dtype", globals())
