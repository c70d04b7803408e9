"""Operators as functions."""

from __future__ import annotations

import builtins
import math
from functools import partial  # noqa: F401, a name of this module

from shardwright import _core

from .. import _calls
from .._missing import missing
from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import (arrangements, composed, drawn, images, losses, norms, operations as P, places, pointwise, products, ranges,
               reductions, running, windows)
from .losses import reduced
from .places import batched_gather
from .primitive import as_tensor
from .shapes import filled


_tables = (pointwise, reductions, running, arrangements, ranges, places, products, windows, norms, images, losses, composed,
           drawn)
for _table in _tables:
    globals().update(_table.functions)


def _unary(kind):
    def function(input):
        return kind()(as_tensor(input))

    function.__doc__ = kind.__doc__
    return function


def _binary(kind):
    def function(input, other):
        return kind()(input, other)

    function.__doc__ = kind.__doc__
    return function


relu, silu = _unary(P.ReLU), _unary(P.SiLU)
neg, abs, sign, square, floor, logical_not = (_unary(k) for k in (P.Neg, P.Abs, P.Sign, P.Square, P.Floor, P.LogicalNot))
ones_like, zeros_like = _unary(P.OnesLike), _unary(P.ZerosLike)
add = tensor_add = _binary(P.Add)
sub, mul, pow, maximum, minimum = (_binary(k) for k in (P.Sub, P.Mul, P.Pow, P.Maximum, P.Minimum))
atan2 = _binary(P.Atan2)
equal, not_equal, less, greater = (_binary(k) for k in (P.Equal, P.NotEqual, P.Less, P.Greater))
less_equal, greater_equal = _binary(P.LessEqual), _binary(P.GreaterEqual)
logical_and, logical_or = _binary(P.LogicalAnd), _binary(P.LogicalOr)
floor_div, floor_mod, ceil = _binary(P.FloorDiv), _binary(P.FloorMod), _unary(P.Ceil)


def gelu(input, approximate: str = "none") -> Tensor:
    return Tensor.of(_calls.call("gelu", [input.array], approximate=approximate))


def softmax(input, axis: int = -1) -> Tensor:
    return P.Softmax(axis)(input)


def log_softmax(logits, axis: int = -1) -> Tensor:
    return P.LogSoftmax(axis)(logits)


def reshape(input, shape) -> Tensor:
    return P.Reshape()(input, shape)


def flatten(input, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Dims from start_dim to end_dim made into one."""
    if order != "C":
        raise ValueError(f"flatten in order {order!r} is not in this front end; there is 'C'")
    rank = len(input.shape)
    start, end = start_dim % rank, end_dim % rank
    if end == rank - 1:
        return Tensor.of(_calls.call("flatten", [input.array], start=start))
    shape = input.shape
    return reshape(input, (*shape[:start], math.prod(shape[start:end + 1]), *shape[end + 1:]))


def transpose(input, input_perm) -> Tensor:
    return P.Transpose()(input, input_perm)


def squeeze(input, axis=None) -> Tensor:
    return P.Squeeze(() if axis is None else axis)(input)


def expand_dims(input_x, axis: int) -> Tensor:
    return P.ExpandDims()(input_x, axis)


unsqueeze = expand_dims


def cat(tensors, axis: int = 0) -> Tensor:
    return P.Concat(axis)(tensors)


concat = cat


def stack(tensors, axis: int = 0) -> Tensor:
    return P.Stack(axis)(tensors)


def split(tensor, split_size_or_sections, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of this size (the last may be smaller), or of these sizes."""
    size = tensor.shape[axis]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        sizes = [builtins.min(step, size - start) for start in builtins.range(0, size, step)]
    else:
        sizes = list(split_size_or_sections)
    return arrangements.cut(tensor, sizes, axis)


def tile(input, dims) -> Tensor:
    return P.Tile()(input, dims)


def broadcast_to(input, shape) -> Tensor:
    return P.BroadcastTo(shape)(input)


def gather(input_params, input_indices, axis: int, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        return batched_gather(input_params, input_indices, axis, batch_dims)
    return P.Gather()(input_params, input_indices, axis)


def one_hot(indices, depth, on_value=1, off_value=0, axis: int = -1) -> Tensor:
    return P.OneHot(axis)(indices, depth, on_value, off_value)


def cast(input, dtype) -> Tensor:
    return P.Cast()(input, dtype)


def shape(input_x) -> tuple:
    return tuple(input_x.shape)


def rank(input_x) -> int:
    return len(input_x.shape)


def dtype(input_x):
    return input_x.dtype


def fill(type, shape, value) -> Tensor:
    return filled(mstype.type_of(type).name, shape, value)


def full(size, fill_value, *, dtype=None) -> Tensor:
    kind = dtype or (mstype.float32 if isinstance(fill_value, float) else mstype.int64)
    return filled(mstype.type_of(kind).name, (size,) if isinstance(size, int) else size, fill_value)


def zeros(size, dtype=None) -> Tensor:
    return full(size, 0, dtype=dtype or mstype.float32)


def ones(size, dtype=None) -> Tensor:
    return full(size, 1, dtype=dtype or mstype.float32)


def scalar_to_tensor(input_x, dtype=mstype.float32) -> Tensor:
    return Tensor(input_x, dtype)


scalar_to_array = scalar_to_tensor


def select(condition, input, other) -> Tensor:
    return P.Select()(condition, input, other)


where = select


def dropout(input, p: float = 0.5, training: bool = True, seed=None) -> Tensor:
    """Zero with probability p, else x / (1 - p)."""
    return P.Dropout(1 - p, seed or 0)(input)[0] if training and p > 0 else input


def stop_gradient(value) -> Tensor:
    """The value, through which no gradient flows."""
    return Tensor.of(_calls.call("stop_gradient", [value.array]))


def mse_loss(input, target, reduction: str = "mean") -> Tensor:
    return reduced(square(input - target), reduction)


def l1_loss(input, target, reduction: str = "mean") -> Tensor:
    return reduced(abs(input - target), reduction)


def cross_entropy(input, target, weight=None, ignore_index: int | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """-log softmax(input)[target] for whole numbers; for probabilities the sum over classes, which are dim 1.

    Rows whose label is `ignore_index` (-100 where it is said) do not count.
    """
    if len(input.shape) != 2:
        return _cross_entropy_of_dims(input, target, weight, ignore_index, reduction, label_smoothing)
    is_index = not _calls.is_floating(target.dtype.name)
    if weight is None and ignore_index is None and label_smoothing == 0 and is_index and reduction == "mean":
        return Tensor.of(_core.cross_entropy(input.array, target.array))
    classes = input.shape[-1]
    counted = cast(not_equal(target, ignore_index), input.dtype) if is_index and ignore_index is not None else None
    if counted is not None:
        target = where(equal(target, ignore_index), zeros_like(target), target)  # one that there is
    shares = P.OneHot()(target, classes, 1.0, 0.0) if is_index else target
    smoothed = shares * (1 - label_smoothing) + label_smoothing / classes if label_smoothing else shares
    of_class = log_softmax(input, -1) if weight is None else log_softmax(input, -1) * weight
    losses = -sum(of_class * smoothed, -1)
    losses = losses if counted is None else losses * counted
    if reduction != "mean" or (counted is None and (weight is None or not is_index)):
        return reduced(losses, reduction)
    weights = sum(shares * weight, -1) if weight is not None else ones_like(losses)
    return sum(losses) / sum(weights if counted is None else weights * counted)


def _cross_entropy_of_dims(input, target, weight, ignore_index, reduction: str, label_smoothing: float) -> Tensor:
    """The same for logits [classes], or [batch, classes, ...]."""
    if not input.shape:
        raise ValueError("cross_entropy takes logits of classes, not a scalar")
    rank = len(input.shape)
    dim = builtins.min(1, rank - 1)
    order = [d for d in builtins.range(rank) if d != dim] + [dim]
    classes = input.shape[order[-1]]

    def rows(x):
        return reshape(x if rank == 1 else transpose(x, order), (-1, classes))

    is_index = not _calls.is_floating(target.dtype.name)
    losses = cross_entropy(rows(input), reshape(target, (-1,)) if is_index else rows(target), weight, ignore_index,
                           reduction, label_smoothing)
    return reshape(losses, [input.shape[d] for d in order[:-1]]) if reduction == "none" else losses


def identity(x):
    """The value."""
    return x


def constexpr(fn=None, get_instance=True, name=None, reuse_result=True, check=True):
    """A decorator with or without arguments: what it decorates runs in Python while a program is traced."""
    return fn if callable(fn) else lambda function: function


_constexpr = constexpr


def mixed_precision_cast(dst_type, x):
    """Floating tensors in another type."""
    if isinstance(x, (tuple, list)):
        return type(x)(mixed_precision_cast(dst_type, item) for item in x)
    return cast(x, dst_type) if isinstance(x, Tensor) and _calls.is_floating(x.dtype.name) else x


def add_flags(fn=None, **flags):
    """A decorator with or without arguments: what it decorates as it is."""
    return fn if fn is not None else lambda function: function


def make_range(*bounds):
    return tuple(builtins.range(*bounds))


def tuple_len(x):
    return len(x)


def depend(value, expr):
    """The value."""
    return value


def assign(variable, value):
    return P.Assign()(variable, value)


def assign_add(variable, value):
    return P.AssignAdd()(variable, value)


def assign_sub(variable, value):
    return P.AssignSub()(variable, value)


def print_(*args):
    return P.Print()(*args)


_of_ours = {"Tensor", "missing", "as_tensor", "filled", "reduced", "batched_gather"}
__all__ = [n for n, value in list(globals().items()) if callable(value) and not n.startswith("_") and n not in _of_ours]
__getattr__ = missing("mindspore.ops.functional", globals())
