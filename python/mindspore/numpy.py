"""Names of numpy for tensors."""

from __future__ import annotations

import numpy as _numpy

from ._missing import missing
from .common import dtype as _mstype
from .common.dtype import *  # noqa: F403
from .common.tensor import Tensor
from .ops import functional as _F
from .ops import reductions as _R
from .ops import running as _running

pi, e, inf, nan, newaxis = _numpy.pi, _numpy.e, _numpy.inf, _numpy.nan, None
_same = """abs absolute add subtract multiply divide true_divide floor_divide remainder fmod exp exp2 expm1 log log2 log10 log1p sqrt square
sin cos tan sinh cosh tanh ceil floor trunc sign negative positive reciprocal maximum minimum hypot deg2rad rad2deg arcsin arccos arctan
arcsinh arccosh arctanh arctan2 equal not_equal less less_equal greater greater_equal isnan isinf isfinite isclose logical_and logical_or logical_not
logical_xor where squeeze expand_dims swapaxes moveaxis transpose flip fliplr flipud rot90 tril triu diagonal trace
ravel split hsplit vsplit dsplit stack hstack vstack dstack column_stack meshgrid outer inner dot tensordot matmul kron cross
clip median cumprod diff sort argsort unique searchsorted take nansum nanmean count_nonzero linspace logspace eye full_like bincount power
atleast_1d atleast_2d atleast_3d"""
_renamed = {"power": "pow", "tensordot": "tensor_dot"}
globals().update({n: getattr(_F, _renamed.get(n, n)) for n in _same.split() if hasattr(_F, _renamed.get(n, n))})


def _with_type(function):
    def call(a, axis=None, dtype=None, keepdims=False, **more):
        y = function(_tensor(a), axis, keepdims)
        return y if dtype is None else _F.cast(y, dtype)

    return call


def _tensor(a) -> Tensor:
    return a if isinstance(a, Tensor) else array(a)


def array(obj, dtype=None, copy=True, ndmin=0) -> Tensor:
    x = Tensor(obj, dtype)
    return _F.reshape(x, (1,) * (ndmin - x.ndim) + tuple(x.shape)) if x.ndim < ndmin else x


asarray = asfarray = array
sum, mean, prod, amax, amin = (_with_type(f) for f in (_R.sum, _R.mean, _R.prod, _R.amax, _R.amin))
max, min = amax, amin


def _spread(function):
    def call(x, axis=None, ddof=0, keepdims=False):
        return function(_tensor(x), axis, ddof, keepdims)

    return call


var, std = _spread(_R.var), _spread(_R.std)
any, all = (lambda a, axis=None, keepdims=False, f=f: f(_tensor(a), axis, keepdims) for f in (_R.any, _R.all))


def argmax(a, axis=None):
    return _R.argmax(_tensor(a), axis)


def argmin(a, axis=None):
    return _R.argmin(_tensor(a), axis)


def cumsum(a, axis=None, dtype=None):
    x = _tensor(a)
    return _running.cumsum(_F.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis, dtype)


def reshape(x, new_shape):
    return _F.reshape(x, (new_shape,) if isinstance(new_shape, int) else new_shape)


def concatenate(arrays, axis=0):
    return _F.concat([_tensor(a) for a in arrays], axis)


append = lambda arr, values, axis=None: concatenate(  # noqa: E731
    (arr, values) if axis is not None else (_F.reshape(arr, (-1,)), _F.reshape(values, (-1,))), axis or 0)


def tile(a, reps):
    return _F.tile(a, (reps,) if isinstance(reps, int) else reps)


def repeat(a, repeats, axis=None):
    return _F.repeat_interleave(a, repeats, axis)


def broadcast_to(array, shape):
    return _F.broadcast_to(array, shape)


def zeros(shape, dtype=_mstype.float32):
    return _F.zeros(shape, dtype)


def ones(shape, dtype=_mstype.float32):
    return _F.ones(shape, dtype)


def full(shape, fill_value, dtype=None):
    return Tensor(_numpy.full(shape, fill_value), dtype)


def zeros_like(a, dtype=None, shape=None):
    return _F.zeros(shape or a.shape, dtype or a.dtype)


def ones_like(a, dtype=None, shape=None):
    return _F.ones(shape or a.shape, dtype or a.dtype)


def arange(start, stop=None, step=None, dtype=None):
    values = _numpy.arange(*((0, start) if stop is None else (start, stop)), 1 if step is None else step)
    return Tensor(values, dtype or (_mstype.int32 if values.dtype.kind == "i" else _mstype.float32))


def identity(n, dtype=_mstype.float32):
    return _F.eye(n, n, dtype)


__getattr__ = missing("mindspore.numpy", globals())
