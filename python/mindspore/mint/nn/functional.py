"""Activations, layers and losses as functions."""

from __future__ import annotations

from ..._missing import missing
from ...common import dtype as mstype
from ...ops import functional as F
from ...ops import operations as P
from ...ops import reductions as R
from ...ops import windows as W
from ...ops.primitive import by_core

_same = """relu relu6 sigmoid tanh silu gelu selu mish elu softplus hardsigmoid hardswish logsigmoid hardshrink softshrink hardtanh threshold
dropout binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss l1_loss mse_loss soft_margin_loss kl_div
cosine_embedding_loss interpolate upsample pad unfold fold layer_norm group_norm batch_norm linear grid_sample pixel_shuffle
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d embedding prelu"""
globals().update({name: getattr(F, name) for name in _same.split()})
# Found here because they are in mint, too.
_of_mint = """amax amin atanh ceil cos cosh erf erfc erfinv expm1 floor isfinite isinf isnan log1p logical_not nan_to_num prod reciprocal round
rsqrt sign sin sinc sinh tan trunc max min"""
conv_transpose2d = W.conv_transpose(2)


def _conv(rank: int):
    def call(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if isinstance(padding, str):
            return F.__dict__[f"conv{rank}d"](input, weight, bias, stride, padding, 0, dilation, groups)
        sides = [p for p in W.listed(padding, rank) for _ in (0, 1)]
        return F.__dict__[f"conv{rank}d"](input, weight, bias, stride, "pad", tuple(sides), dilation, groups)

    return call


conv1d, conv2d, conv3d = (_conv(rank) for rank in (1, 2, 3))


def _avg_pool(rank: int):
    def call(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        return W.avg_pool(input, rank, kernel_size, stride, "pad", _both(padding, rank), ceil_mode, count_include_pad, divisor_override)

    return call


def _both(padding, rank: int):
    return tuple(p for p in W.listed(padding, rank) for _ in (0, 1))


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(rank) for rank in (1, 2, 3))


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return W.max_pool(input, 2, kernel_size, stride, "pad", _both(padding, 2), dilation, return_indices, ceil_mode)


def softmax(input, dim=None, dtype=None):
    x = input if dtype is None else F.cast(input, dtype)
    return P.Softmax(_own_dim(x) if dim is None else dim)(x)


def log_softmax(input, dim=None, dtype=None):
    x = input if dtype is None else F.cast(input, dtype)
    return P.LogSoftmax(_own_dim(x) if dim is None else dim)(x)


def _own_dim(x) -> int:
    return 0 if len(x.shape) in (0, 1, 3) else 1


def glu(input, dim=-1):
    return F.glu(input, dim)


def leaky_relu(input, negative_slope=0.01):
    return F.leaky_relu(input, negative_slope)


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    return F.smooth_l1_loss(input, target, beta, reduction)


def one_hot(tensor, num_classes=-1):
    """A new last dim; without num_classes as many as the largest needs."""
    count = int(tensor.asnumpy().max()) + 1 if num_classes < 0 else num_classes
    return F.cast(by_core("one_hot", tensor, depth=count, dtype="f32"), mstype.int64)


def dropout2d(input, p=0.5, training=True):
    """Whole channels."""
    if not training or p == 0:
        return input
    kept, _ = P.Dropout(1 - p)(F.ones((*input.shape[:2], *[1] * (len(input.shape) - 2)), input.dtype))
    return input * kept


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """x / max(norm along a dim, eps)"""
    return input / P.Maximum()(R.vector_norm(input, p, dim, True), float(eps))


def flatten(input, start_dim=0, end_dim=-1):
    return F.flatten(input, start_dim=start_dim, end_dim=end_dim)


def _of_all(name: str):
    from .. import __dict__ as names
    return names.get(name)


def __getattr__(name: str):
    if name in _of_mint.split() and _of_all(name) is not None:
        return _of_all(name)
    return _missing(name)


_missing = missing("mindspore.mint.nn.functional", globals())
