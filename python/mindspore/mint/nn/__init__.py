"""Layers, activations and losses as cells: those of `nn` under newer names and with newer arguments."""

from __future__ import annotations

import math

from ..._missing import missing
from ...common import dtype as mstype
from ...common.initializer import HeUniform, Normal, Uniform, initializer
from ...common.parameter import Parameter
from ...nn import functions as N
from ...nn.cell import Cell
from ...nn.functions import cell_of
from ...nn.layers import Identity, ReLU, Sigmoid, SiLU, Tanh
from ...nn.loss.loss import CrossEntropyLoss, L1Loss, LossBase, MSELoss
from ...nn.norms import SyncBatchNorm
from ...ops import functional as F
from ...ops import operations as P
from ...ops import windows as W
from . import functional
from . import functional as M

_same = """ReLU6 Mish AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d PixelShuffle Threshold
Hardtanh ELU KLDivLoss NLLLoss SoftMarginLoss CosineEmbeddingLoss ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad2d ReflectionPad1d
ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d Upsample"""
globals().update({name: N.cells[name] for name in _same.split()})
_made = {
    "SELU": lambda: F.selu, "Hardsigmoid": lambda: F.hardsigmoid, "Hardswish": lambda: F.hardswish, "LogSigmoid": lambda: F.logsigmoid,
    "GELU": lambda approximate="none": lambda x: F.gelu(x, approximate), "Softsign": lambda: F.softsign, "Tanhshrink": lambda: F.tanhshrink,
    "Hardshrink": lambda lambd=0.5: lambda x: F.hardshrink(x, lambd), "Softshrink": lambda lambd=0.5: lambda x: F.softshrink(x, lambd),
    "Softmax": lambda dim=None: lambda x: M.softmax(x, dim), "LogSoftmax": lambda dim=None: lambda x: M.log_softmax(x, dim),
    "Flatten": lambda start_dim=1, end_dim=-1: lambda x: F.flatten(x, start_dim=start_dim, end_dim=end_dim),
    "Unfold": lambda kernel_size, dilation=1, padding=0, stride=1: lambda x: F.unfold(x, kernel_size, dilation, padding, stride),
    "Fold": lambda output_size, kernel_size, dilation=1, padding=0, stride=1: lambda x: F.fold(
        x, output_size, kernel_size, dilation, padding, stride),
    "MaxPool2d": lambda kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False: lambda x: M.max_pool2d(
        x, kernel_size, stride, padding, dilation, ceil_mode, return_indices),
    **{f"AvgPool{rank}d": lambda kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None,
       rank=rank: lambda x: M.__dict__[f"avg_pool{rank}d"](x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
       for rank in (1, 2, 3)}}
_made |= {f"ZeroPad{rank}d": lambda padding, rank=rank: lambda x: F.pad(x, (padding,) * (2 * rank) if isinstance(padding, int)
                                                                       else padding) for rank in (1, 2, 3)}
_made |= {"UpsamplingNearest2d": lambda size=None, scale_factor=None: lambda x: F.interpolate(x, size, scale_factor, "nearest"),
          "UpsamplingBilinear2d": lambda size=None, scale_factor=None: lambda x: F.interpolate(x, size, scale_factor, "bilinear", True)}
_losses = {
    "SmoothL1Loss": lambda reduction="mean", beta=1.0: lambda x, y: F.smooth_l1_loss(x, y, beta, reduction),
    "BCELoss": lambda weight=None, reduction="mean": lambda x, y: F.binary_cross_entropy(x, y, weight, reduction),
    "BCEWithLogitsLoss": lambda weight=None, reduction="mean", pos_weight=None: lambda x, y: F.binary_cross_entropy_with_logits(
        x, y, weight, pos_weight, reduction)}
globals().update({name: cell_of(name, make) for name, make in _made.items()})
globals().update({name: cell_of(name, make, LossBase) for name, make in _losses.items()})


def _dropout(p=0.5, inplace=False):
    return lambda x, *, is_training=False: F.dropout(x, p) if is_training else x


Dropout = cell_of("Dropout", _dropout)


class Linear(Cell):
    """y = x w^T + b, with weight [out_features, in_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, weight_init=None, bias_init=None, dtype=None):
        super().__init__()
        bound = Uniform(1 / math.sqrt(in_features))
        dtype = dtype or mstype.float32
        self.weight = Parameter(initializer(weight_init or HeUniform(math.sqrt(5)), [out_features, in_features], dtype), name="weight")
        self.bias = Parameter(initializer(bias_init or bound, [out_features], dtype), name="bias") if bias else None

    def construct(self, x):
        return F.dense(x, self.weight, self.bias)


class Embedding(Cell):
    """Rows of a table by index."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 sparse=False, _weight=None, _freeze=False, dtype=None):
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or padding_idx is not None:
            raise ValueError("mint.nn.Embedding with padding_idx, max_norm or scale_grad_by_freq is not in this front end")
        self.weight = Parameter(initializer(Normal(1.0) if _weight is None else _weight, [num_embeddings, embedding_dim],
                                            dtype or mstype.float32), name="weight", requires_grad=not _freeze)

    def construct(self, ids):
        return P.Gather()(self.weight, ids, 0)


class PReLU(Cell):
    """x where it is above 0, else weight x."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype=None):
        super().__init__()
        self.weight = Parameter(initializer(float(init), [num_parameters], dtype or mstype.float32), name="weight")

    def construct(self, x):
        return P.PReLU()(x, self.weight)


class _Norm(Cell):
    def _hold(self, size, is_affine: bool, has_bias: bool, dtype) -> None:
        self.weight = Parameter(initializer("ones", size, dtype or mstype.float32), name="weight") if is_affine else None
        self.bias = Parameter(initializer("zeros", size, dtype or mstype.float32), name="bias") if is_affine and has_bias else None


class LayerNorm(_Norm):
    """Over the last dims."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, dtype=None):
        super().__init__()
        self.shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self.eps = eps
        self._hold(self.shape, elementwise_affine, bias, dtype)

    def construct(self, x):
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class GroupNorm(_Norm):
    """Over groups of channels."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, dtype=None):
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self._hold([num_channels], affine, True, dtype)

    def construct(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _Conv(_Norm):
    rank = 2

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", dtype=None):
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f"padding_mode of mint.nn.{type(self).__name__} is zeros in this front end, not {padding_mode!r}")
        shape = [out_channels, in_channels // groups, *W.listed(kernel_size, self.rank)]
        bound = Uniform(1 / math.sqrt(math.prod(shape[1:])))
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)), shape, dtype or mstype.float32), name="weight")
        self.bias = Parameter(initializer(bound, [out_channels], dtype or mstype.float32), name="bias") if bias else None
        self.settings = (stride, padding, dilation, groups)

    def construct(self, x):
        return M.__dict__[f"conv{self.rank}d"](x, self.weight, self.bias, *self.settings)


Conv1d, Conv2d, Conv3d = (type(f"Conv{rank}d", (_Conv,), {"rank": rank, "__doc__": "A convolution."}) for rank in (1, 2, 3))


class ConvTranspose2d(_Norm):
    """The gradient of a Conv2d by its input."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", dtype=None):
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f"padding_mode of mint.nn.ConvTranspose2d is zeros in this front end, not {padding_mode!r}")
        shape = [in_channels, out_channels // groups, *W.listed(kernel_size, 2)]
        bound = Uniform(1 / math.sqrt(math.prod(shape[1:])))
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)), shape, dtype or mstype.float32), name="weight")
        self.bias = Parameter(initializer(bound, [out_channels], dtype or mstype.float32), name="bias") if bias else None
        self.settings = (stride, padding, output_padding, groups, dilation)

    def construct(self, x):
        return M.conv_transpose2d(x, self.weight, self.bias, *self.settings)


class _BatchNorm(_Norm):
    """By the batch while training, else by what was seen then: running = (1 - momentum) running + momentum batch."""

    def __init__(self, num_features: int, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, dtype=None):
        super().__init__()
        self.eps, self.momentum, self.count = eps, momentum, num_features
        self._hold([num_features], affine, True, dtype)
        self.running_mean = Parameter(initializer("zeros", [num_features]), name="running_mean", requires_grad=False)
        self.running_var = Parameter(initializer("ones", [num_features]), name="running_var", requires_grad=False)

    def construct(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        dims = tuple(d for d in range(len(x.shape)) if d != 1)
        mean, variance = F.mean(x, dims), F.var(x, dims)
        unbiased = variance * (x.size / self.count / (x.size / self.count - 1))
        for moving, seen in ((self.running_mean, mean), (self.running_var, unbiased)):
            F.assign(moving, F.stop_gradient(moving * (1 - self.momentum) + seen * self.momentum))
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=True, eps=self.eps)


BatchNorm1d, BatchNorm2d, BatchNorm3d = (type(f"BatchNorm{rank}d", (_BatchNorm,), {"__doc__": _BatchNorm.__doc__}) for rank in (1, 2, 3))
__getattr__ = missing("mindspore.mint.nn", globals())
