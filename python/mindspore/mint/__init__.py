"""Operators as functions, under newer names and with newer arguments: dim, keepdim, correction."""

from __future__ import annotations

from .._missing import missing
from ..common import dtype as mstype
from ..common.tensor import Tensor
from ..ops import arrangements as A
from ..ops import functional as F
from ..ops import operations as P
from ..ops import places
from ..ops import reductions as R
from ..ops import running
from ..ops.reductions import named_as_said

# Those that are the same as functions of ops.
_same = """abs neg negative sign floor ceil round square exp sin cos tan tanh sigmoid erf erfc erfinv sinh cosh expm1 exp2 trunc frac sinc
isnan isinf isfinite isneginf nan_to_num zeros_like ones_like log log2 log10 log1p sqrt rsqrt reciprocal acos arccos acosh arccosh asin arcsin
asinh arcsinh atan arctan atanh arctanh atan2 arctan2 mul maximum minimum logaddexp logaddexp2 div divide floor_divide remainder fmod eq ne lt le gt
ge less less_equal greater greater_equal not_equal logical_and logical_or logical_xor logical_not pow xlogy lerp addcdiv addcmul clamp where
isclose sum mean prod amax amin logsumexp nansum any all cumsum cumprod cummax cummin count_nonzero reshape ravel squeeze unsqueeze
permute flip roll tril triu tile broadcast_to narrow repeat_interleave meshgrid full full_like arange linspace eye index_select
vector_norm matrix_norm rand rand_like randn randn_like randint randperm normal multinomial bernoulli unique_consecutive nonzero
masked_select searchsorted matmul bmm mm outer mv addmm addmv addbmm baddbmm einsum inverse cross cdist trace bincount histc
relu chunk split unbind swapaxes dstack hstack float_power diff t scatter_add index_add"""
globals().update({name: getattr(F, name) for name in _same.split() if hasattr(F, name)})
clip = clamp  # noqa: F821, of the table
scatter, scatter_add = places.scatter, places.scatter_add
cat, concat, stack, softmax, chunk, split, repeat_interleave = (
    named_as_said(f) for f in (F.cat, F.cat, F.stack, F.softmax, F.chunk, F.split, F.repeat_interleave))
index_select = named_as_said(F.index_select)
narrow, unbind = named_as_said(F.narrow), F.unbind


def _scaled(function):
    def call(input, other, *, alpha=1):
        return function(input, other if alpha == 1 else other * alpha)

    return call


add, sub = _scaled(F.add), _scaled(F.sub)


def _spread(function):
    """Of count - correction, over some dims or all."""
    def call(input, dim=None, *, correction=1, keepdim=False):
        return function(input, dim, correction, keepdim)

    return call


var, std, var_mean, std_mean = (_spread(f) for f in (R.var, R.std, R.var_mean, R.std_mean))


def _extreme(over_all, with_places):
    """Of all elements; along a dim with where it is; of two tensors element by element."""
    def call(input, dim=None, keepdim=False):
        if dim is None:
            return over_all(input)
        if isinstance(dim, Tensor):
            return (P.Maximum() if over_all is R.amax else P.Minimum())(input, dim)
        values, found = with_places(input, dim, keepdim)
        return values, F.cast(found, mstype.int64)

    return call


max, min = _extreme(R.amax, R.argmax_with_value), _extreme(R.amin, R.argmin_with_value)


def _place(function):
    def call(input, dim=None, keepdim=False):
        return F.cast(function(input, dim, keepdim), mstype.int64)

    return call


argmax, argmin = _place(R.argmax), _place(R.argmin)


def median(input, dim=None, keepdim=False):
    """The lower one of the two in the middle; along a dim with where it is."""
    return R.median(F.reshape(input, (-1,)), 0)[0] if dim is None else R.median(input, dim, keepdim)


def cummin(input, dim):
    values, found = running.cummin(input, dim)
    return values, F.cast(found, mstype.int64)


def count_nonzero(input, dim=None):
    return R.count_nonzero(input, dim, dtype=mstype.int64)


def bincount(input, weights=None, minlength=0):
    counts = running.bincount(input, weights, minlength)
    return F.cast(counts, mstype.int64) if weights is None else counts


def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    return R.vector_norm(input, 2 if p == "fro" else p, dim, keepdim, dtype=dtype)


def sort(input, *, dim=-1, descending=False, stable=False):
    values, found = R.ordered(input, dim, not descending)
    return values, F.cast(found, mstype.int64)


def argsort(input, dim=-1, descending=False, stable=False):
    return sort(input, dim=dim, descending=descending)[1]


def topk(input, k, dim=-1, largest=True, sorted=True):
    values, found = R.topk(input, k, dim, largest)
    return values, F.cast(found, mstype.int64)


def gather(input, dim, index):
    """y[.., k, ..] = x[.., index[.., k, ..], ..]"""
    return F.gather_elements(input, dim, index)


def select(input, dim, index):
    return A.select_at(input, dim, index)


def transpose(input, dim0, dim1):
    """Two dims swapped."""
    return F.swapaxes(input, dim0, dim1)


def dot(input, other):
    return F.sum(input * other)


def diag(input, diagonal=0):
    """Of a row a matrix, of a matrix its diagonal."""
    return A.diag_embed(input, diagonal) if len(input.shape) == 1 else A.diagonal(input, diagonal)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return places.unique_sorted(input, sorted, return_inverse, return_counts, dim)


def zeros(size, *, dtype=None):
    return F.zeros(size, dtype)


def ones(size, *, dtype=None):
    return F.ones(size, dtype)


def full(size, fill_value, *, dtype=None):
    """Of a float floats."""
    kind = dtype or (mstype.float32 if isinstance(fill_value, float) else mstype.int64)
    return F.fill(kind, (size,) if isinstance(size, int) else size, fill_value)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims from start_dim to end_dim made into one."""
    return F.flatten(input, start_dim=start_dim, end_dim=end_dim)


def equal(input: Tensor, other: Tensor) -> bool | Tensor:
    """Whether shapes and all elements are the same: in a program, as a tensor."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    same = R.all(F.equal(input, other))
    return same if same.array.is_traced else bool(same)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all are close to each other: in a program, as a tensor."""
    same = R.all(F.isclose(input, other, rtol, atol, equal_nan))
    return same if same.array.is_traced else bool(same)


from . import distributed, nn, optim  # noqa: E402, which need the names above

__getattr__ = missing("mindspore.mint", globals())
