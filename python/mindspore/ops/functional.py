"""Operators as functions."""

from __future__ import annotations

import math
from functools import partial  # noqa: F401, a name of this module

from shardwright import _core

from .. import _calls
from .._missing import missing
from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .primitive import as_tensor
from .shapes import dims_of, filled


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


relu, sigmoid, tanh, silu = _unary(P.ReLU), _unary(P.Sigmoid), _unary(P.Tanh), _unary(P.SiLU)
exp, log, sqrt, rsqrt, square = _unary(P.Exp), _unary(P.Log), _unary(P.Sqrt), _unary(P.Rsqrt), _unary(P.Square)
neg, abs, sign, floor, logical_not = _unary(P.Neg), _unary(P.Abs), _unary(P.Sign), _unary(P.Floor), _unary(P.LogicalNot)
ones_like, zeros_like = _unary(P.OnesLike), _unary(P.ZerosLike)
add = tensor_add = _binary(P.Add)
sub, mul, div, pow, maximum, minimum = (_binary(k) for k in (P.Sub, P.Mul, P.Div, P.Pow, P.Maximum, P.Minimum))
atan2 = _binary(P.Atan2)
equal, not_equal, less, greater = (_binary(k) for k in (P.Equal, P.NotEqual, P.Less, P.Greater))
less_equal, greater_equal = _binary(P.LessEqual), _binary(P.GreaterEqual)
logical_and, logical_or = _binary(P.LogicalAnd), _binary(P.LogicalOr)
floor_div, floor_mod, ceil, erf = _binary(P.FloorDiv), _binary(P.FloorMod), _unary(P.Ceil), _unary(P.Erf)


def matmul(input, other) -> Tensor:
    """x y over the last two dims."""
    return P.MatMul()(as_tensor(input), as_tensor(other))


bmm = batch_matmul = matmul


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


def swapaxes(input, axis0: int, axis1: int) -> Tensor:
    order = list(range(len(input.shape)))
    order[axis0], order[axis1] = order[axis1], order[axis0]
    return transpose(input, order)


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
        sizes = [min(step, size - start) for start in range(0, size, step)]
    else:
        sizes = list(split_size_or_sections)
    parts = _calls.call("split", [tensor.array], dim=axis % len(tensor.shape), sizes=sizes)
    return tuple(Tensor.of(p) for p in parts) if isinstance(parts, tuple) else (Tensor.of(parts),)


def tile(input, dims) -> Tensor:
    return P.Tile()(input, dims)


def broadcast_to(input, shape) -> Tensor:
    return P.BroadcastTo(shape)(input)


def gather(input_params, input_indices, axis: int, batch_dims: int = 0) -> Tensor:
    return P.Gather(batch_dims)(input_params, input_indices, axis)


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


def _reduction(op: str):
    def function(x, axis=None, keep_dims: bool = False) -> Tensor:
        x = as_tensor(x)
        return Tensor.of(_calls.call(op, [x.array], dims=dims_of(axis, len(x.shape)), keep=keep_dims))

    function.__doc__ = f"The core's operator {op}: over some dims, or all."
    return function


sum, mean, max_over = _reduction("reduce_sum"), _reduction("reduce_mean"), _reduction("reduce_max")
reduce_sum, reduce_mean = sum, mean


def argmax(input, dim=None, keepdim: bool = False) -> Tensor:
    """Where it is largest along a dim; of all elements without one."""
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    return P.Cast()(Tensor.of(_calls.call("argmax", [input.array], dim=dim, keep=keepdim)), mstype.int64)


def cumsum(x, axis: int, dtype=None) -> Tensor:
    """Running sums along a dim."""
    return P.CumSum()(x if dtype is None else cast(x, dtype), axis)


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


def reduced(x: Tensor, reduction: str) -> Tensor:
    """As losses say it: mean, sum or none. Raises: ValueError of another."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is mean, sum or none, not '{reduction}'")
    return x if reduction == "none" else mean(x) if reduction == "mean" else sum(x)


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
    shares = one_hot(target, classes) if is_index else target
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
    order = [d for d in range(rank) if d != min(1, rank - 1)] + [min(1, rank - 1)]
    classes = input.shape[order[-1]]

    def rows(x):
        return reshape(x if rank == 1 else transpose(x, order), (-1, classes))

    is_index = not _calls.is_floating(target.dtype.name)
    losses = cross_entropy(rows(input), reshape(target, (-1,)) if is_index else rows(target), weight, ignore_index,
                           reduction, label_smoothing)
    return reshape(losses, [input.shape[d] for d in order[:-1]]) if reduction == "none" else losses


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


_of_ours = {"Tensor", "missing", "as_tensor", "dims_of", "filled", "max_over", "reduced"}
__all__ = [n for n, value in list(globals().items()) if callable(value) and not n.startswith("_") and n not in _of_ours]
__getattr__ = missing("mindspore.ops.functional", globals())
