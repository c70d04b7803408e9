"""Methods of tensors that are operators."""

from __future__ import annotations

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import arrangements as A
from . import functional as F
from . import operations as P
from . import places
from .indices import item
from . import reductions as R
from . import running
from .reductions import named_as_said


def _dims(axes: tuple) -> tuple | None:
    """Of `t.f(1, 0)` and `t.f((1, 0))`."""
    if not axes or axes == (None,):
        return None
    return tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes


def _transpose(self: Tensor, *axes) -> Tensor:
    order = _dims(axes)
    return F.transpose(self, order if order is not None else range(self.ndim)[::-1])


def _type(self: Tensor, dtype=None):
    return self.dtype if dtype is None else F.cast(self, dtype)


@named_as_said
def _sum(self, axis=None, dtype=None, keepdims=False, initial=None):
    total = R.sum(self, axis, keepdims, dtype=dtype)
    return total if initial is None else total + initial


@named_as_said
def _prod(self, axis=None, keepdims=False, dtype=None):
    return R.prod(self, axis, keepdims, dtype)


def _extreme(over_dims, with_place):
    @named_as_said
    def method(self, axis=None, keepdims=False, *, initial=None, where=None, return_indices=False):
        R._refuse(where, initial, "max")
        if axis is None or not return_indices:
            return over_dims(self, axis, keepdims)
        return with_place(self, axis, keepdims)

    return method


@named_as_said
def _argmax(self, axis=None, keepdims=False):
    return F.argmax(self, axis, keepdims)


@named_as_said
def _cumsum(self, axis=None, dtype=None):
    return running.cumsum(F.reshape(self, (-1,)) if axis is None else self, 0 if axis is None else axis, dtype)


def _repeat(self: Tensor, repeats, axis=None) -> Tensor:
    return R.named_as_said(A.repeat_interleave)(self, repeats, axis)


def _clamp(self: Tensor, min=None, max=None) -> Tensor:
    return F.clamp(self, min, max)


@named_as_said
def _norm(self, ord=None, axis=None, keepdims=False, *, p=None, dtype=None):
    return F.norm(self, p if p is not None else ord, axis, keepdims, dtype=dtype)


def _in_numbers(kind):
    return lambda self: F.cast(self, kind)


# Functions of ops that take the tensor first.
_same = """abs absolute neg negative positive sign floor ceil round square exp sin cos tan tanh sigmoid erf erfc erfinv sinh cosh expm1 exp2
trunc frac sinc isnan isinf isfinite nan_to_num log log2 log10 log1p logit sqrt rsqrt reciprocal acos acosh asin asinh atan atanh arccos
arccosh arcsin arcsinh arctan arctanh lgamma digamma i0 deg2rad rad2deg hardshrink logsigmoid relu softmax log_softmax signbit sgn
add subtract mul multiply maximum minimum atan2 arctan2 hypot logaddexp logaddexp2 fmax fmin copysign xlogy div divide true_divide
floor_divide floor_div remainder fmod floor_mod eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isclose logical_and logical_or
logical_xor logical_not pow float_power lerp addcdiv addcmul heaviside clip_by_value
mean var std any all median nansum nanmean amax amin logsumexp argmin argmax_with_value argmin_with_value count_nonzero cumprod cummax cummin
logcumsumexp diff aminmax renorm sort argsort topk top_k bincount histc
squeeze swapaxes swapdims movedim moveaxis flip fliplr flipud rot90 roll tril triu diagonal trace narrow chunk tensor_split split
unbind hsplit vsplit dsplit repeat_interleave unfold tile broadcast_to ravel t new_zeros new_ones numel reverse_sequence slice_scatter
gather gather_elements gather_nd index_select scatter scatter_add index_fill index_add select_scatter masked_fill masked_select nonzero
argwhere unique tensor_scatter_update tensor_scatter_add tensor_scatter_sub tensor_scatter_mul tensor_scatter_div tensor_scatter_max
tensor_scatter_min unsorted_segment_sum searchsorted
matmul bmm mm mv dot outer ger inner addmm addmv addbmm addr baddbmm det inverse cross dist cov kron logdet slogdet
type_as is_floating_point expand_as isposinf isneginf isreal inv nanmedian quantile msort ldexp xdivy adjoint absolute fills
reverse matrix_determinant unsorted_segment_max unsorted_segment_min unsorted_segment_prod soft_shrink approximate_equal multinomial
bernoulli fold combinations"""
_methods = {
    "astype": lambda self, dtype, copy=True: F.cast(self, dtype), "to": lambda self, dtype: F.cast(self, dtype), "type": _type,
    **{name: _in_numbers(kind) for name, kind in (("float", "float32"), ("int", "int32"), ("long", "int64"), ("half",
    "float16"),
                                                  ("bool", "bool"), ("double", "float64"), ("bfloat16", mstype.bfloat16))},
    "reshape": lambda self, *shape: F.reshape(self, _dims(shape)), "view": lambda self, *shape: F.reshape(self, _dims(shape)),
    "reshape_as": lambda self, other: F.reshape(self, other.shape), "view_as": lambda self, other: F.reshape(self, other.shape),
    "flatten": lambda self, order="C", start_dim=0, end_dim=-1: F.flatten(self, order, start_dim=start_dim, end_dim=end_dim),
    "expand_dims": F.expand_dims, "unsqueeze": F.expand_dims, "transpose": _transpose, "permute": _transpose,
    "sub": F.sub, "sum": _sum, "prod": _prod, "max": _extreme(R.amax, R.argmax_with_value),
    "min": _extreme(R.amin, R.argmin_with_value),
    "argmax": _argmax, "cumsum": _cumsum, "norm": _norm, "clamp": _clamp, "clip": _clamp, "repeat": _repeat,
    "where": lambda self, condition, y: F.where(condition, self, y), "diag": F.diag, "take": places.functions["take"],
    "expand": lambda self, *size: F.broadcast_to(self, _dims(size)),
    "broadcast_to": lambda self, *size: F.broadcast_to(self, _dims(size)),
    "expand_as": lambda self, x: F.broadcast_to(self, tuple(x.shape)), "scatter_add": places.scatter_add, "select": A.select_at,
    "new_full": lambda self, size, fill_value, *, dtype=None: F.fill(dtype or self.dtype, size, fill_value),
    "fill": lambda self, value: F.full_like(self, value), "is_signed": lambda self: not str(self.dtype).startswith(("UInt",
    "Bool")),
    "stride": lambda self: tuple(s // self.itemsize for s in self.strides), "is_complex": lambda self: False,
    "index_add": lambda self, dim, index, source, *, alpha=1: places.index_add(
        self, index, source if alpha == 1 else source * alpha, dim), "ndimension": lambda self: self.ndim,
    "nelement": lambda self: self.size, "is_contiguous": lambda self: True, "clone": lambda self: self.copy(),
    "ptp": named_as_said(lambda self, axis=None, keepdims=False: R.amax(self, axis, keepdims) - R.amin(self, axis, keepdims)),
    "__abs__": F.abs, "__getitem__": item, "__floordiv__": lambda self, other: P.FloorDiv()(self, other),
    "__rfloordiv__": lambda self, other: P.FloorDiv()(other, self), "__mod__": lambda self, other: P.FloorMod()(self, other),
    "__rmod__": lambda self, other: P.FloorMod()(other, self),
    "__matmul__": F.matmul, "__rmatmul__": lambda self, other: F.matmul(other, self)}
for _name in _same.split():
    if hasattr(F, _name) and _name not in _methods:
        _methods[_name] = getattr(F, _name)
for _name, _function in _methods.items():
    setattr(Tensor, _name, _function)
Tensor.strides = property(lambda self: self.asnumpy().strides, doc="In bytes, from one element of a dim to the next.")
Tensor.H = Tensor.mT = property(lambda self: F.swapaxes(self, -1, -2), doc="The last two dims swapped.")
Tensor.from_numpy = staticmethod(lambda array: Tensor(array))
