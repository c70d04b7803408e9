"""Running functions along a dim, and functions of statistics."""

from __future__ import annotations

import builtins
import itertools

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .pointwise import filled_like, floating, logaddexp, stop, where
from .primitive import as_tensor, by_core
from .reductions import _as_type, _reduced, amax, amin, named_as_said, sliced, sum, taken_along, vector_norm


def _shifted(x: Tensor, axis: int, by: int, value: float) -> Tensor:
    """Moved up along a dim; the first have the value."""
    rest = sliced(x, axis, 0, x.shape[axis] - by)
    return by_core("pad", rest, dims=[axis % len(x.shape)], before=[by], after=[0], gaps=[0], value=float(value))


def running(x: Tensor, axis: int, both, start: float) -> Tensor:
    """both(x[0], .., x[i]) at place i, in as many steps as the size has bits."""
    by = 1
    while by < x.shape[axis]:
        x = both(_shifted(x, axis, by, start), x)
        by *= 2
    return x


@named_as_said
def cumsum(x, axis, dtype=None):
    """Running sums along a dim."""
    x = as_tensor(x)
    if dtype is None and x.dtype.name in ("bool",):
        x = P.Cast()(x, mstype.int64)
    return P.CumSum()(_as_type(x, dtype), axis)


@named_as_said
def cumprod(input, axis, dtype=None):
    """Running products along a dim."""
    return running(_as_type(floating(input), dtype), axis, lambda a, b: a * b, 1.0)


@named_as_said
def logcumsumexp(input, axis):
    """log of the running sum of e^x."""
    return running(floating(input), axis, logaddexp, -1e30)


def _running_extreme(is_largest: bool):
    @named_as_said
    def function(input, axis):
        """The largest (smallest) so far, and the last place where it is."""
        x = as_tensor(input)
        y = stop(x) if is_largest else -stop(x)
        best = running(y, axis, P.Maximum(), -3e38)
        size = [1] * len(x.shape)
        size[axis] = x.shape[axis]
        places = Tensor(numpy.arange(x.shape[axis], dtype=numpy.float32).reshape(size))
        found = running(where(y == best, places, filled_like(floating(x), -1)), axis, P.Maximum(), -1.0)
        found = P.Cast()(found, mstype.int32)
        return taken_along(x, found, axis), found if not is_largest else P.Cast()(found, mstype.int64)

    return function


cummax, cummin = _running_extreme(True), _running_extreme(False)


# ---- of statistics ----

def cov(input, *, correction=1, fweights=None, aweights=None):
    """Of the variables that are rows."""
    if fweights is not None or aweights is not None:
        raise ValueError("cov with fweights or aweights is not in this front end")
    x = floating(input)
    x = x if len(x.shape) == 2 else P.Reshape()(x, (1, -1))
    x = x - _reduced("reduce_mean", x, 1, True)
    return P.Squeeze()(by_core("matmul", x, x, transpose_b=True) * (1 / (x.shape[1] - correction)))


def diff(x, n=1, axis=-1, prepend=None, append=None):
    """What one element has more than the one before it."""
    parts = [p for p in (prepend, x, append) if p is not None]
    y = P.Concat(axis)(parts) if len(parts) > 1 else as_tensor(x)
    for _ in range(n):
        size = y.shape[axis]
        y = sliced(y, axis, 1, size) - sliced(y, axis, 0, size - 1)
    return y


def trapz(y, x=None, *, dx=1.0, dim=-1):
    """The area below points that are joined by lines."""
    size = y.shape[dim]
    means = (sliced(y, dim, 1, size) + sliced(y, dim, 0, size - 1)) * 0.5
    return sum(means * (dx if x is None else diff(x, 1, dim if len(x.shape) > 1 else -1)), dim)


def renorm(input, p, axis, maxnorm):
    """Slices along a dim whose norm is above maxnorm are made smaller."""
    others = [d for d in range(len(input.shape)) if d != axis % len(input.shape)]
    size = vector_norm(input, p, others, True)
    return input * where(size > float(maxnorm), float(maxnorm) / (size + 1e-7), 1.0)


def aminmax(input, *, axis=0, keepdims=False):
    return amin(input, axis, keepdims), amax(input, axis, keepdims)


def combinations(input, r=2, with_replacement=False):
    """Rows of r elements each."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = numpy.array(list(choose(range(input.shape[0]), r)), numpy.int32)
    return by_core("gather", input, Tensor(places), dim=0)


def bincount(input, weights=None, minlength=0):
    """How often each whole number is there. How many there are is looked up."""
    ids = as_tensor(input)
    count = builtins.max(int(ids.asnumpy().max(initial=-1)) + 1, minlength)
    data = Tensor(numpy.ones(ids.shape, numpy.float32)) if weights is None else weights
    sums = by_core("unsorted_segment_sum", data, P.Cast()(ids, mstype.int32), count=count, dim=0)
    return sums


functions = {"cumsum": cumsum, "cumprod": cumprod, "cummax": cummax, "cummin": cummin, "logcumsumexp": logcumsumexp, "cov": cov,
             "diff": diff, "trapz": trapz, "renorm": renorm, "aminmax": aminmax, "combinations": combinations, "bincount": bincount}
