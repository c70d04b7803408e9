"""Methods of tensors that are operators."""

from __future__ import annotations

from ..common.tensor import Tensor
from . import functional as F
from . import operations as P


def _dims(axes: tuple) -> tuple | None:
    """Of `t.f(1, 0)` and `t.f((1, 0))`."""
    if not axes or axes == (None,):
        return None
    return tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes


def _transpose(self: Tensor, *axes) -> Tensor:
    order = _dims(axes)
    return F.transpose(self, order if order is not None else range(self.ndim)[::-1])


_methods = {
    "astype": lambda self, dtype: F.cast(self, dtype),
    "to": lambda self, dtype: F.cast(self, dtype),
    "float": lambda self: F.cast(self, "float32"),
    "int": lambda self: F.cast(self, "int32"),
    "reshape": lambda self, *shape: F.reshape(self, _dims(shape)),
    "view": lambda self, *shape: F.reshape(self, _dims(shape)),
    "flatten": lambda self, order="C", start_dim=0, end_dim=-1: F.flatten(self, start_dim=start_dim, end_dim=end_dim),
    "squeeze": F.squeeze, "expand_dims": F.expand_dims, "unsqueeze": F.expand_dims, "swapaxes": F.swapaxes,
    "transpose": _transpose, "permute": _transpose,
    "sum": lambda self, axis=None, dtype=None, keepdims=False: F.sum(self, axis, keepdims),
    "mean": lambda self, axis=None, keep_dims=False: F.mean(self, axis, keep_dims),
    "max": lambda self, axis=None, keepdims=False: F.max_over(self, axis, keepdims),
    "min": lambda self, axis=None, keepdims=False: -F.max_over(-self, axis, keepdims),
    "argmax": lambda self, axis=None, keepdims=False: F.argmax(self, axis, keepdims),
    "any": lambda self: F.sum(F.cast(self, "float32")) > 0,
    "all": lambda self: F.sum(1 - F.cast(self, "float32")) == 0,
    "abs": F.abs, "exp": F.exp, "log": F.log, "sqrt": F.sqrt, "square": F.square, "floor": F.floor, "relu": F.relu,
    "sigmoid": F.sigmoid, "tanh": F.tanh, "softmax": F.softmax, "pow": F.pow, "add": F.add, "sub": F.sub, "mul": F.mul,
    "atan2": F.atan2, "div": F.div, "matmul": F.matmul, "equal": F.equal, "not_equal": F.not_equal, "split": F.split,
    "tile": F.tile, "broadcast_to": F.broadcast_to,
    "__floordiv__": lambda self, other: P.FloorDiv()(self, other),
    "__rfloordiv__": lambda self, other: P.FloorDiv()(other, self),
    "__mod__": lambda self, other: P.FloorMod()(self, other),
    "__rmod__": lambda self, other: P.FloorMod()(other, self),
    "masked_fill": lambda self, mask, value: F.where(mask, Tensor(value, self.dtype), self)}
for _name, _function in _methods.items():
    setattr(Tensor, _name, _function)
