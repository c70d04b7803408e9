"""Operators that make fewer elements of many, and those that norm along a dim."""

from __future__ import annotations

import math
from typing import Any, Sequence

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, conversion
from .elementwise import is_floating, scaled


def reduced(at: At, op: str, x: Tensor, dims: int | Sequence[int] | None, keep: bool) -> Tensor:
    """Over all dims where none are said."""
    said = list(range(x.ndim)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)
    return x if not x.ndim else at.call(op, x, dims=[d % x.ndim for d in said], keep=keep)


def _numbers(at: At, x: Tensor, dtype: str | None) -> Tensor:
    if dtype is not None:
        return _core.cast(x, at.walk.entering(dtype))
    return _core.cast(x, "int64") if x.dtype == "bool" else x


@conversion("sum.default", "sum.dim_IntList")
def sum_(at: At, self: Tensor, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduced(at, "reduce_sum", _numbers(at, self, dtype), dim, keepdim)


@conversion("mean.default", "mean.dim")
def mean(at: At, self: Tensor, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduced(at, "reduce_mean", _numbers(at, self, dtype), dim, keepdim)


def largest(at: At, x: Tensor, dims: Any, keep: bool) -> Tensor:
    """Those that are the largest alike share the gradient, where there is one."""
    y = reduced(at, "reduce_max", x, dims, keep)
    if not is_floating(x):
        return y
    top = at.call("stop_gradient", y if keep else reduced(at, "reduce_max", x, dims, True))
    is_top = _core.cast(ops.equal(x, top), x.dtype)
    count = reduced(at, "reduce_sum", is_top, dims, keep)
    return at.call("div", reduced(at, "reduce_sum", at.call("mul", x, is_top), dims, keep), count)


@conversion("amax.default", "max.default")
def amax(at: At, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return largest(at, self, dim, keepdim)


@conversion("amin.default", "min.default")
def amin(at: At, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return at.call("neg", largest(at, at.call("neg", self), dim, keepdim))


@conversion("max.dim", "min.dim")
def extreme_of_dim(at: At, self: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The first one that is it has the gradient."""
    from .indices import gather
    place = at.call("argmax" if ".max." in at.node.op else "argmin", self, dim=dim, keep=True)
    value = gather(at, self, dim, place) if is_floating(self) else reduced(at, "reduce_max", self, dim, True)
    return tuple(y if keepdim else ops.squeeze(y, dim) for y in (value, place))


@conversion("argmax.default", "argmin.default")
def argmax(at: At, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    op = at.node.op.split(".")[1]
    return at.call(op, self if dim is not None else ops.reshape(self, [-1]), dim=-1 if dim is None else dim, keep=keepdim)


@conversion("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_or_all(at: At, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    is_all = ".all." in at.node.op
    x = at.call("logical_not", self) if is_all else self
    found = ops.greater(reduced(at, "reduce_sum", _core.cast(x, "int64"), dim, keepdim), 0)
    return at.call("logical_not", found) if is_all else found


def variance(at: At, x: Tensor, dim: Any, correction: float | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    """And the mean."""
    dims = list(range(x.ndim)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    centre = reduced(at, "reduce_mean", x, dims, True)
    squares = at.call("square", at.call("sub", x, centre))
    count = math.prod(x.shape[d] for d in dims)
    taken = 1 if correction is None else correction
    spread = scaled(at, reduced(at, "reduce_mean", squares, dims, keepdim), count / (count - taken))
    return spread, centre if keepdim else ops.squeeze(centre, dims)


@conversion("var.correction", "var.dim")
def var(at: At, self: Tensor, dim: Any = None, correction: float | None = None, keepdim: bool = False,
        unbiased: bool = True) -> Tensor:
    return variance(at, self, dim, correction if unbiased else 0, keepdim)[0]


@conversion("std.correction", "std.dim")
def std(at: At, self: Tensor, dim: Any = None, correction: float | None = None, keepdim: bool = False,
        unbiased: bool = True) -> Tensor:
    return at.call("sqrt", variance(at, self, dim, correction if unbiased else 0, keepdim)[0])


@conversion("var_mean.correction", "var_mean.dim")
def var_mean(at: At, self: Tensor, dim: Any = None, correction: float | None = None, keepdim: bool = False,
             unbiased: bool = True) -> Any:
    return variance(at, self, dim, correction if unbiased else 0, keepdim)


@conversion("softmax.int", "_softmax.default", "log_softmax.int", "_log_softmax.default")
def softmax(at: At, self: Tensor, dim: int, dtype: str | None = None, half_to_float: bool = False) -> Tensor:
    x = self if dtype is None else _core.cast(self, at.walk.entering(dtype))
    return at.call("log_softmax" if "log_softmax" in at.node.op else "softmax", x, dim=dim % x.ndim)


@conversion("logsumexp.default")
def logsumexp(at: At, self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    largest = at.call("stop_gradient", reduced(at, "reduce_max", self, dim, True))
    sums = reduced(at, "reduce_sum", at.call("exp", at.call("sub", self, largest)), dim, True)
    y = at.call("add", at.call("log", sums), largest)
    return y if keepdim else ops.squeeze(y, dim)


@conversion("cumsum.default")
def cumsum(at: At, self: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    x = _numbers(at, self, dtype)
    return at.call("cumsum", x, dim=dim % x.ndim)


@conversion("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar")
def vector_norm(at: At, self: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: str | None = None,
                p: float | None = None) -> Tensor:
    """Its gradient at 0 is 0, as PyTorch's is."""
    order = ord if p is None else p
    x = _numbers(at, self, dtype)
    if order == 1:
        return reduced(at, "reduce_sum", at.call("abs", x), dim, keepdim)
    if order == math.inf:
        return reduced(at, "reduce_max", at.call("abs", x), dim, keepdim)
    if order != 2:
        raise at.refuse(f"of order {order} has no counterpart here; there are 1, 2 and inf")
    squares = reduced(at, "reduce_sum", at.call("square", x), dim, keepdim)
    # sqrt has no gradient at 0: there the sum is taken as 1 and the root, which is 0, is put back.
    is_zero = ops.equal(squares, 0.0)
    zero, one = (_core.call("fill", [], shape=[], value=v, dtype=_core.short_name(squares.dtype)) for v in (0.0, 1.0))
    return at.call("where", is_zero, zero, at.call("sqrt", at.call("where", is_zero, one, squares)))


@conversion("cosine_similarity.default")
def cosine_similarity(at: At, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    def normed(x: Tensor) -> Tensor:
        return _core.binary("div", x, ops.maximum(vector_norm(at, x, 2, dim, True), eps))

    return reduced(at, "reduce_sum", _core.binary("mul", normed(x1), normed(x2)), dim, False)

