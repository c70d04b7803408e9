"""Calls of the core's operators on its arrays, with names after the cells that make them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from shardwright import _core

from . import _trace

_path: list[str] = []  # of the cells that run, the outermost first


@contextmanager
def inside(cell: str) -> Iterator[None]:
    """Names of nodes begin with `cell`, if it has a name."""
    if not cell:
        yield
        return
    _path.append(cell)
    try:
        yield
    finally:
        _path.pop()


_types: list[str] = []  # in which cells compute that run, the innermost last


@contextmanager
def computing_in(dtype: str | None) -> Iterator[None]:
    """Floating parameters are read in this type, if there is one."""
    if not dtype:
        yield
        return
    _types.append(dtype)
    try:
        yield
    finally:
        _types.pop()


def as_computed(array):
    """A parameter's array in the type of the cell that runs."""
    return cast(array, _types[-1]) if _types and is_floating(array.dtype) else array


def path() -> str:
    """Of the cell that runs: `layers.0.attention`."""
    return ".".join(_path)


def name_of(what: str) -> str:
    """Of a node of the cell that runs."""
    return ".".join([*_path, what])


def call(op: str, arrays: list, name: str = "", in_=None, out_=None, host=False, **attributes) -> Any:
    """An array, or a tuple of them. `name`: in the cell; the operator's own if it is empty.

    Raises: ValueError if `in_` has not an entry for each array; scalars may be left out.
    """
    if in_ is not None and len(in_) not in (len(arrays), sum(a.shape != () for a in arrays)):
        raise ValueError(f"{name or op}: in_strategy has {len(in_)} entries, but there are {len(arrays)} inputs")
    full_name, tracing = name_of(name or op), _trace.current()
    if tracing:
        tracing.dims.setdefault(full_name, [a.ndim for a in arrays])
    result = _core.call(op, arrays, name=full_name, in_=in_, out_=out_, host=host, **attributes)
    if tracing and any(tracing.is_behind(a) for a in arrays):
        tracing.note_behind(result if isinstance(result, (tuple, list)) else [result])
    return result


def cast(array, dtype: str):
    """The same numbers as `dtype`."""
    if array.dtype == dtype:
        return array
    return call("cast", [array], to=_core.short_name(dtype))


def is_floating(dtype: str) -> bool:
    return "float" in dtype


_widths = {"bool": 0, "uint8": 1, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def common_type(a: str, b: str) -> str:
    """In which two tensors meet: floating before whole numbers, then the wider one."""
    if is_floating(a) != is_floating(b):
        return a if is_floating(a) else b
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    return a if _widths[a] >= _widths[b] else b


def type_beside(number, dtype: str) -> str:
    """Of a Python number beside a tensor of `dtype`, which stays as it is if it can hold it."""
    if isinstance(number, bool):
        return dtype
    if isinstance(number, int):
        return "int64" if dtype == "bool" else dtype
    return dtype if is_floating(dtype) else "float32"


def pair(a, b) -> tuple:
    """Two operands, one of which may be a Python number, as arrays of one type."""
    if isinstance(a, _core.Tensor) and isinstance(b, _core.Tensor):
        dtype = common_type(a.dtype, b.dtype)
    elif isinstance(a, _core.Tensor):
        dtype = type_beside(b, a.dtype)
        b = _core.Tensor(b, dtype)
    elif isinstance(b, _core.Tensor):
        dtype = type_beside(a, b.dtype)
        a = _core.Tensor(a, dtype)
    else:
        a, b = (_core.Tensor(x, "float32" if isinstance(x, float) else "int64") for x in (a, b))
        dtype = common_type(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


_of_bools = {"add": "logical_or", "mul": "logical_and", "maximum": "logical_or", "minimum": "logical_and"}


def binary(op: str, a, b, **how):
    """An operator of two tensors, or of a tensor and a number; `how`: as `call` takes it."""
    a, b = pair(a, b)
    dtype = a.dtype
    if op == "div" and not is_floating(dtype):
        a, b = cast(a, "float32"), cast(b, "float32")
    elif dtype == "bool" and op in _of_bools:
        op = _of_bools[op]
    elif op == "pow" and not is_floating(dtype):  # the core's is of floats; f64 holds what i32 does
        return cast(call(op, [cast(a, "float64"), cast(b, "float64")], **how), dtype)
    elif dtype == "bool" and op not in ("logical_and", "logical_or"):  # comparisons are of numbers
        a, b = cast(a, "int32"), cast(b, "int32")
    return call(op, [a, b], **how)
