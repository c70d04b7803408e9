"""What tensors do as methods: the operators of `ops` under the names that arrays have elsewhere."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy as np

from . import ops
from ._core import Tensor


def _flat(sizes: tuple) -> Sequence[int]:
    """`f(2, 3)` and `f((2, 3))` alike."""
    return sizes[0] if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else [operator.index(s) for s in sizes]


def _reduction(name: str) -> Any:
    function = getattr(ops, name)

    def method(self: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False, **of_numpy: Any) -> Any:
        if of_numpy and not self.is_traced:  # np.sum(x) calls x.sum(axis, out=..)
            return getattr(self.numpy(), name)(axis=axis, keepdims=keepdims, **of_numpy)
        if any(value is not None for value in of_numpy.values()):
            raise TypeError(f"{name} takes axis and keepdims, not {', '.join(of_numpy)}")
        return function(self, axis, keepdims)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


def _unary(name: str) -> Any:
    function = getattr(ops, name)

    def method(self: Tensor) -> Tensor:
        return function(self)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


def _argmax(self: Tensor, axis: int | None = None) -> Tensor:
    """Where it is largest along a dim, or of all in their order, i32."""
    return ops.argmax(ops.reshape(self, [-1]) if axis is None else self, -1 if axis is None else axis)


def _squeeze(self: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without dims of size 1: those given, or all."""
    return ops.squeeze(self, axis)


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in the same order: `x.reshape(2, -1)`; one dim may be -1."""
    return ops.reshape(self, _flat(shape))


def _transpose(self: Tensor, *dims: Any) -> Tensor:
    """Dim d of the result is dim dims[d]: `x.transpose(1, 0)`; without dims, all in reverse."""
    return ops.transpose(self, _flat(dims) if dims else None)


def _flatten(self: Tensor, start: int = 0) -> Tensor:
    """Dims from `start` on made into one."""
    return ops.flatten(self, start)


def _astype(self: Tensor, dtype: Any) -> Tensor:
    """The same numbers as `dtype`: `x.astype("bfloat16")`, `x.astype(np.float64)`."""
    return ops.cast(self, dtype if isinstance(dtype, str) else np.dtype(dtype).name)


_others = {"min": "-(-x).max()", "view": "reshape", "permute": "transpose", "to": "astype", "type": "astype", "unsqueeze": "ops.expand_dims",
           "norm": "ops.sqrt(ops.sum(ops.square(x)))", "detach": "ops.stop_gradient", "backward": "shardwright.grad",
           "grad": "shardwright.grad", "cpu": "numpy", "tolist": "numpy().tolist", "clone": "the tensor itself: none changes"}


def _missing(self: Tensor, name: str) -> Any:
    """Says what there is instead."""
    hint = f"; say {_others[name]}" if name in _others else f"; say ops.{name}" if name in ops.__all__ else ""
    raise AttributeError(f"a tensor has no '{name}'{hint}")


for _name in ("sum", "mean", "max"):
    setattr(Tensor, _name, _reduction(_name))
for _name in ("exp", "log", "sqrt", "abs", "square"):
    setattr(Tensor, _name, _unary(_name))
for _name, _method in (("reshape", _reshape), ("transpose", _transpose), ("flatten", _flatten), ("argmax", _argmax),
                       ("squeeze", _squeeze), ("astype", _astype),
                       ("__getattr__", _missing)):
    setattr(Tensor, _name, _method)
Tensor.T = property(ops.transpose, doc="All dims in reverse.")  # type: ignore[misc, assignment]
