"""Functions over trees of tensors."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from .._autodiff import GradOperation
from .._missing import missing
from ..common.tensor import RowTensor, Tensor

_kinds = {"Tensor": lambda x: isinstance(x, Tensor), "Number": lambda x: isinstance(x, (int, float)),
          "Bool": lambda x: isinstance(x, bool), "Tuple": lambda x: isinstance(x, tuple),
          "List": lambda x: isinstance(x, list), "String": lambda x: isinstance(x, str),
          "Function": callable, "RowTensor": lambda x: isinstance(x, RowTensor), "MapTensor": lambda x: False,
          "CSRTensor": lambda x: False, "COOTensor": lambda x: False, "None": lambda x: x is None}


class MultitypeFuncGraph:
    """A function with a body for each combination of kinds of arguments."""

    def __init__(self, name: str, read_value: bool = False):
        self.name = name
        self._bodies: list[tuple[tuple[str, ...], Callable]] = []

    def register(self, *kinds: str) -> Callable:
        for kind in kinds:
            if kind not in _kinds:
                raise ValueError(f"{self.name}: kind '{kind}' is unknown; there are {', '.join(_kinds)}")

        def keep(body: Callable) -> Callable:
            self._bodies.append((kinds, body))
            return body

        return keep

    def __call__(self, *args) -> Any:
        for kinds, body in self._bodies:
            if len(kinds) == len(args) and all(_kinds[k](a) for k, a in zip(kinds, args)):
                return body(*args)
        raise TypeError(f"{self.name} is not registered for ({', '.join(type(a).__name__ for a in args)})")


class Map:
    """A function of the first items, of the second items, and so on."""

    def __init__(self, ops: Callable | None = None, reverse: bool = False):
        self.ops = ops

    def __call__(self, *args) -> tuple:
        function, trees = (self.ops, args) if self.ops else (args[0], args[1:])
        return tuple(function(*items) for items in zip(*trees))


class HyperMap(Map):
    """The same, into items that are tuples or lists themselves."""

    def __call__(self, *args) -> Any:
        function, trees = (self.ops, args) if self.ops else (args[0], args[1:])
        if not isinstance(trees[0], (tuple, list)):
            return function(*trees)
        return tuple(self(*((function,) if not self.ops else ()), *items) for items in zip(*trees))


def __getattr__(name: str):
    if name in _of_functions:
        from . import functional  # which needs this module
        return getattr(functional, name)
    return _missing(name)


_of_functions = ("clip_by_value", "clip_by_global_norm", "normal", "uniform", "multinomial", "tensor_dot", "dot", "repeat_elements",
                 "sequence_mask", "matmul", "count_nonzero")
__all__ = ["GradOperation", "HyperMap", "Map", "MultitypeFuncGraph", "partial"]
_missing = missing("mindspore.ops.composite", globals())
