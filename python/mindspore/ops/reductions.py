"""Functions that make fewer elements of many, or put them in order."""

from __future__ import annotations

import math

import numpy

from .. import _calls
from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .pointwise import bool_of, floating, log, sqrt, stop, where
from .primitive import as_tensor, by_core
from .shapes import dims_of

_synonyms = {"dim": "axis", "axes": "axis", "keepdim": "keepdims", "keep_dims": "keepdims"}


def named_as_said(function):
    """Takes dim for axis, keepdim and keep_dims for keepdims: all of them are in use."""
    def call(*args, **said):
        return function(*args, **{_synonyms.get(name, name): value for name, value in said.items()})

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


def _reduced(op: str, x: Tensor, axis, keepdims: bool) -> Tensor:
    return by_core(op, x, dims=dims_of(axis, len(x.shape)), keep=keepdims) if x.shape else x


def _as_type(x: Tensor, dtype) -> Tensor:
    return x if dtype is None else P.Cast()(x, dtype)


def counted(x) -> Tensor:
    """As sums take it: whole numbers and bools are int64."""
    x = as_tensor(x)
    return x if _calls.is_floating(x.dtype.name) else P.Cast()(x, mstype.int64)


@named_as_said
def sum(input, axis=None, keepdims=False, *, dtype=None):
    """The sum over some dims, or all."""
    return _reduced("reduce_sum", counted(input) if dtype is None else P.Cast()(input, dtype), axis, keepdims)


@named_as_said
def mean(x, axis=None, keepdims=False, *, dtype=None):
    """The mean over some dims, or all."""
    return _reduced("reduce_mean", _as_type(floating(x), dtype), axis, keepdims)


def _largest(x: Tensor, axis, keepdims: bool) -> Tensor:
    """Elements that are the largest alike share the gradient."""
    y = _reduced("reduce_max", x, axis, keepdims)
    if not _calls.is_floating(x.dtype.name) or not x.shape:
        return y
    top = stop(_reduced("reduce_max", x, axis, True))
    is_top = P.Cast()(x == top, x.dtype)
    return _reduced("reduce_sum", x * is_top, axis, keepdims) / _reduced("reduce_sum", is_top, axis, keepdims)


def _refuse(where_, initial, who: str) -> None:
    if where_ is not None or initial is not None:
        raise ValueError(f"ops.{who} with initial or where is not in this front end")


def _signed(x) -> Tensor:
    x = as_tensor(x)
    return P.Cast()(x, mstype.int32) if x.dtype.name == "bool" else x


@named_as_said
def amax(input, axis=None, keepdims=False, *, initial=None, where=None):
    """The largest over some dims, or all."""
    _refuse(where, initial, "amax")
    return _largest(_signed(input), axis, keepdims)


@named_as_said
def amin(input, axis=None, keepdims=False, *, initial=None, where=None):
    """The smallest over some dims, or all."""
    _refuse(where, initial, "amin")
    return -_largest(-_signed(input), axis, keepdims)


def taken_along(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """y[.., k, ..] = x[.., places[.., k, ..], ..]"""
    return by_core("take_along_dim", x, places, dim=axis % len(x.shape))


def _value_and_place(op: str, x: Tensor, axis: int, keepdims: bool, type_of_places) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    place = by_core(op, x, dim=axis, keep=True)
    value = taken_along(x, place, axis)
    if not keepdims:
        value, place = P.Squeeze(axis)(value), P.Squeeze(axis)(place)
    return value, P.Cast()(place, type_of_places)


def with_place(op: str, type_of_places=mstype.int64):
    """`(values, places)` along an axis."""
    @named_as_said
    def function(input, axis=0, keepdims=False):
        return _value_and_place(op, input, axis, keepdims, type_of_places)

    return function


argmax_with_value, argmin_with_value = with_place("argmax"), with_place("argmin")


def _extreme(op: str, over_all, name: str):
    @named_as_said
    def function(input, axis=None, keepdims=False, *, initial=None, where=None):
        _refuse(where, initial, name)
        if axis is None:
            return over_all(input), Tensor(0, mstype.int64)
        return _value_and_place(op, input, axis, keepdims, mstype.int64)

    return function


max, min = _extreme("argmax", amax, "max"), _extreme("argmin", amin, "min")


def _place(op: str, dtype):
    @named_as_said
    def function(input, axis=None, keepdims=False):
        x = as_tensor(input)
        if axis is None:
            x, axis = P.Reshape()(x, (-1,)), 0
        return P.Cast()(by_core(op, x, dim=axis, keep=keepdims), dtype)

    return function


argmax, argmin = _place("argmax", mstype.int64), _place("argmin", mstype.int32)


@named_as_said
def any(input, axis=None, keepdims=False):
    """Whether one is true."""
    return _reduced("reduce_sum", P.Cast()(bool_of(input), mstype.int64), axis, keepdims) > 0


@named_as_said
def all(input, axis=None, keepdims=False):
    """Whether all are true."""
    return P.LogicalNot()(any(P.LogicalNot()(bool_of(input)), axis, keepdims))


def folded(x: Tensor, axis: int, both) -> Tensor:
    """All slices along a dim by an operator of two: halves by halves. The dim has size 1 then."""
    while x.shape[axis] > 1:
        size = x.shape[axis]
        half = size // 2
        parts = by_core("split", x, dim=axis % len(x.shape), sizes=[half, half] + [1] * (size % 2))
        y = both(parts[0], parts[1])
        x = P.Concat(axis)([y, parts[2]]) if size % 2 else y
    return x


@named_as_said
def prod(input, axis=None, keepdims=False, dtype=None):
    """The product over some dims, or all."""
    x = counted(input) if dtype is None else P.Cast()(input, dtype)
    if axis is None:
        y = folded(P.Reshape()(x, (-1,)), 0, lambda a, b: a * b)
        return P.Reshape()(y, (1,) * len(x.shape) if keepdims else ())
    dims = dims_of(axis, len(x.shape))
    for d in dims:
        x = folded(x, d, lambda a, b: a * b)
    return x if keepdims else P.Squeeze(tuple(dims))(x)


@named_as_said
def logsumexp(input, axis, keepdims=False):
    """log of the sum of e^x."""
    x = floating(input)
    top = stop(_reduced("reduce_max", x, axis, True))
    y = log(_reduced("reduce_sum", by_core("exp", x - top), axis, True)) + top
    return y if keepdims else P.Squeeze(tuple(dims_of(axis, len(x.shape))))(y)


def _moments(x, axis, ddof, keepdims: bool) -> tuple[Tensor, Tensor]:
    x = floating(x)
    dims = dims_of(axis, len(x.shape))
    centre = _reduced("reduce_mean", x, dims, True)
    count = math.prod(x.shape[d] for d in dims)
    spread = _reduced("reduce_sum", P.Square()(x - centre), dims, keepdims) * (1 / (count - int(ddof)))
    return spread, centre if keepdims else P.Squeeze(tuple(dims))(centre)


@named_as_said
def var(input, axis=None, ddof=0, keepdims=False):
    """The variance, of count - ddof."""
    return _moments(input, axis, ddof, keepdims)[0]


@named_as_said
def std(input, axis=None, ddof=0, keepdims=False):
    return sqrt(_moments(input, axis, ddof, keepdims)[0])


@named_as_said
def var_mean(input, axis=None, ddof=0, keepdims=False):
    return _moments(input, axis, ddof, keepdims)


@named_as_said
def std_mean(input, axis=None, ddof=0, keepdims=False):
    spread, centre = _moments(input, axis, ddof, keepdims)
    return sqrt(spread), centre


@named_as_said
def nansum(input, axis=None, keepdims=False, *, dtype=None):
    x = as_tensor(input)
    return sum(where(x != x, 0.0, x), axis, keepdims, dtype=dtype)


@named_as_said
def nanmean(input, axis=None, keepdims=False, *, dtype=None):
    x = as_tensor(input)
    return nansum(x, axis, keepdims) / sum(P.Cast()(x == x, x.dtype), axis, keepdims)


@named_as_said
def count_nonzero(x, axis=(), keepdims=False, dtype=mstype.int32):
    return P.Cast()(_reduced("reduce_sum", P.Cast()(as_tensor(x) != 0, mstype.int64), axis, keepdims), dtype)


def root_of_sum(squares: Tensor) -> Tensor:
    """The root of sums, whose gradient at 0 is 0."""
    is_zero = squares == 0
    return where(is_zero, 0.0, sqrt(where(is_zero, 1.0, squares)))


@named_as_said
def vector_norm(x, ord=2, axis=None, keepdims=False, *, dtype=None):
    """(sum of |x|^ord)^(1 / ord)"""
    x = _as_type(floating(x), dtype)
    size = P.Abs()(x)
    if ord in (math.inf, -math.inf):
        return (amax if ord > 0 else amin)(size, axis, keepdims)
    if ord == 0:
        return sum(P.Cast()(x != 0, x.dtype), axis, keepdims)
    if ord == 1:
        return sum(size, axis, keepdims)
    if ord == 2:
        return root_of_sum(sum(P.Square()(x), axis, keepdims))
    return P.Pow()(sum(P.Pow()(size, float(ord)), axis, keepdims), 1 / float(ord))


@named_as_said
def matrix_norm(A, ord="fro", axis=(-2, -1), keepdims=False, *, dtype=None):  # noqa: N803, as there
    """'fro', or 1, -1, inf, -inf: the largest (smallest) sum of a column or a row."""
    x = _as_type(floating(A), dtype)
    if ord in ("fro", "f"):
        return vector_norm(x, 2, axis, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"a norm of matrices of order {ord!r} is not in this front end; there are 'fro', 1, -1, inf and -inf")
    rows, columns = dims_of(axis, len(x.shape))
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = sum(P.Abs()(x), inner, True)
    y = (amax if ord > 0 else amin)(sums, outer, True)
    return y if keepdims else P.Squeeze((rows, columns))(y)


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):  # noqa: N803
    """Of vectors where one dim is said or no order, else of matrices."""
    dims = None if dim is None else dims_of(dim, len(A.shape))
    is_of_matrix = ord is not None and (len(A.shape) == 2 if dims is None else len(dims) == 2)
    if is_of_matrix:
        return matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


def ordered(x, axis: int, is_growing: bool) -> tuple[Tensor, Tensor]:
    """Along a dim, and where what is there was."""
    x = as_tensor(x)
    axis %= len(x.shape)
    last = len(x.shape) - 1
    y = P.Transpose()(x, _with_last(axis, last)) if axis != last else x
    if not _calls.is_floating(y.dtype.name):
        y = P.Cast()(y, mstype.float64)
    values, places = by_core("top_k", y, k=x.shape[axis], largest=not is_growing)
    if axis != last:
        values, places = (P.Transpose()(t, _with_last(axis, last)) for t in (values, places))
    return P.Cast()(values, x.dtype), places


def _with_last(axis: int, last: int) -> list[int]:
    order = list(range(last + 1))
    order[axis], order[last] = last, axis
    return order


@named_as_said
def sort(input_x, axis=-1, descending=False, *, stable=False):
    """In growing order along a dim, and where each was."""
    values, places = ordered(input_x, axis, not descending)
    return values, P.Cast()(places, mstype.int32)


@named_as_said
def argsort(input, axis=-1, descending=False):
    return P.Cast()(ordered(input, axis, not descending)[1], mstype.int32)


def topk(input, k, dim=None, largest=True, sorted=True):
    """The k largest along a dim, and where they are."""
    x = as_tensor(input)
    axis = (-1 if dim is None else dim) % len(x.shape)
    last = len(x.shape) - 1
    y = P.Transpose()(x, _with_last(axis, last)) if axis != last else x
    values, places = by_core("top_k", y, k=int(k), largest=bool(largest))
    if axis != last:
        values, places = (P.Transpose()(t, _with_last(axis, last)) for t in (values, places))
    return values, P.Cast()(places, mstype.int32)


def top_k(input_x, k, sorted=True):
    return topk(input_x, k)


@named_as_said
def median(input, axis=-1, keepdims=False):
    """The lower one of the two in the middle, and where it is."""
    values, places = ordered(input, axis, True)
    middle = (values.shape[axis] - 1) // 2
    out = []
    for t in (values, P.Cast()(places, mstype.int64)):
        y = sliced(t, axis, middle, middle + 1)
        out.append(y if keepdims else P.Squeeze(axis)(y))
    return tuple(out)


def sliced(x: Tensor, axis: int, start: int, stop_: int, step: int = 1) -> Tensor:
    """Elements from start up to stop along a dim."""
    return by_core("strided_slice", x, dims=[axis % len(x.shape)], starts=[start], stops=[stop_], steps=[step])


def flipped(x: Tensor, axes) -> Tensor:
    """The other way round along dims."""
    for d in dims_of(axes, len(x.shape)):
        x = by_core("gather", x, Tensor(numpy.arange(x.shape[d] - 1, -1, -1, dtype=numpy.int32)), dim=d)
    return x


functions = {
    "sum": sum, "mean": mean, "reduce_sum": sum, "reduce_mean": mean, "amax": amax, "amin": amin, "max": max, "min": min,
    "argmax": argmax, "argmin": argmin, "any": any, "all": all, "prod": prod, "logsumexp": logsumexp, "var": var, "std": std,
    "var_mean": var_mean, "std_mean": std_mean, "nansum": nansum, "nanmean": nanmean, "count_nonzero": count_nonzero, "norm": norm,
    "vector_norm": vector_norm, "matrix_norm": matrix_norm, "sort": sort, "argsort": argsort, "topk": topk, "top_k": top_k,
    "median": median,
    "argmax_with_value": argmax_with_value, "argmin_with_value": argmin_with_value,
    "msort": lambda input: sort(input, 0)[0]}
