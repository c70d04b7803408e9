"""Convolutions of 1 and 3 dims and those that go the other way, and layers with a norm and an activation behind them."""

from __future__ import annotations

import math

from ..common import dtype as mstype
from ..common.initializer import HeUniform, Uniform, initializer
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..ops import functional as F
from ..ops import windows as W
from ..ops.arrangements import padded
from .cell import Cell
from .layers import Conv2d, Dense, get_activation
from .norms import BatchNorm1d, BatchNorm2d


class _Convolution(Cell):
    """Subclasses say how many dims there are, and whether it goes the other way: the weight is [in, out / group, ..] then."""

    rank = 1
    is_transposed = False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1, group=1,
                 has_bias=False, weight_init=None, bias_init=None, data_format=None, dtype=mstype.float32, output_padding=0):
        super().__init__()
        if data_format not in (None, "NCDHW"):
            raise ValueError(f"data_format of a {type(self).__name__} is NCDHW in this front end, not {data_format!r}")
        if str(pad_mode).lower() not in ("same", "valid", "pad"):
            raise ValueError(f"pad_mode is same, valid or pad, not '{pad_mode}'")
        if in_channels % group or out_channels % group:
            raise ValueError(f"group {group} of a {type(self).__name__} does not divide {in_channels} and {out_channels} channels")
        self.in_channels, self.out_channels, self.group = in_channels, out_channels, group
        self.kernel_size, self.stride, self.dilation = (tuple(W.listed(v, self.rank)) for v in (kernel_size, stride, dilation))
        self.pad_mode, self.padding, self.has_bias = str(pad_mode).lower(), padding, has_bias
        self.output_padding = tuple(W.listed(output_padding, self.rank))
        if any(self.output_padding) and self.pad_mode != "pad":
            raise ValueError("output_padding needs pad_mode 'pad'")
        shape = self._weight_shape()
        if isinstance(weight_init, Tensor) and len(weight_init.shape) < len(shape):
            weight_init = F.expand_dims(weight_init, 2)
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)) if weight_init is None else weight_init, shape, dtype), name="weight")
        self.bias = None
        if has_bias:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            self.bias = Parameter(initializer(Uniform(bound) if bias_init is None else bias_init, [out_channels], dtype), name="bias")

    def _weight_shape(self) -> list[int]:
        """Lines are images of one row."""
        rows = [1] if self.rank == 1 else []
        first, second = (self.in_channels, self.out_channels) if self.is_transposed else (self.out_channels, self.in_channels)
        return [first, second // self.group, *rows, *self.kernel_size]

    def construct(self, x):
        weight = F.squeeze(self.weight, 2) if self.rank == 1 else self.weight
        size = x.shape[2:]
        if self.is_transposed:
            y = self._other_way(x, weight, size)
        else:
            sides = W.sides_of(self.pad_mode, self.padding, size, self.kernel_size, self.stride, self.dilation)
            y = W.convolved(x, weight, list(self.stride), sides, list(self.dilation), self.group)
        return y if self.bias is None else y + F.reshape(self.bias, (-1,) + (1,) * self.rank)

    def _other_way(self, x, weight, size):
        kernel, strides, dilations = list(self.kernel_size), list(self.stride), list(self.dilation)
        sides = W.sides_of("pad", self.padding, size, kernel, strides, dilations) if self.pad_mode == "pad" else [(0, 0)] * self.rank
        out = W.deconvolution_size(self.pad_mode, size, kernel, strides, dilations, sides, [0] * self.rank)
        if self.pad_mode == "same":
            sides = W.sides_of("same", 0, out, kernel, strides, dilations)
        if self.rank == 3:  # there what is more is computed, in 2 dims it is zeros
            out = [n + m for n, m in zip(out, self.output_padding)]
        y = W.deconvolved(x, weight, strides, sides, dilations, self.group, out)
        more = [(0, 0), (0, 0), *((0, m) for m in self.output_padding)]
        return padded(y, more) if self.rank != 3 and any(self.output_padding) else y


class Conv1d(_Convolution):
    """Lines [batch, channels, length]; weight [out, in / group, 1, length]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1, group=1,
                 has_bias=False, weight_init=None, bias_init=None, dtype=mstype.float32):
        super().__init__(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
                         bias_init, None, dtype)


class Conv3d(_Convolution):
    """Volumes [batch, channels, depth, height, width]."""

    rank = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1, group=1,
                 has_bias=False, weight_init=None, bias_init=None, data_format="NCDHW", dtype=mstype.float32):
        super().__init__(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
                         bias_init, data_format, dtype)


class Conv1dTranspose(Conv1d):
    """The gradient of a Conv1d by its input."""

    is_transposed = True


class Conv2dTranspose(_Convolution):
    """The gradient of a Conv2d by its input. output_padding: so many zeros at the ends."""

    rank, is_transposed = 2, True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, output_padding=0, dilation=1,
                 group=1, has_bias=False, weight_init=None, bias_init=None, dtype=mstype.float32):
        super().__init__(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
                         bias_init, None, dtype, output_padding)


class Conv3dTranspose(_Convolution):
    """The gradient of a Conv3d by its input."""

    rank, is_transposed = 3, True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1, group=1,
                 output_padding=0, has_bias=False, weight_init=None, bias_init=None, data_format="NCDHW", dtype=mstype.float32):
        super().__init__(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
                         bias_init, data_format, dtype, output_padding)


class _WithNorm(Cell):
    """A layer, a batch norm if it has one, and an activation."""

    def _behind(self, norm, activation, alpha: float) -> None:
        self.has_bn = norm is not None
        if norm is not None:
            self.batchnorm = norm
        if activation == "leakyrelu":
            activation = get_activation("leakyrelu", alpha)
        self.activation = get_activation(activation) if isinstance(activation, str) else activation

    def _finished(self, x):
        x = self.batchnorm(x) if self.has_bn else x
        return x if self.activation is None else self.activation(x)


class Conv2dBnAct(_WithNorm):
    """A Conv2d, `has_bn` a batch norm behind it, and an activation."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1, group=1,
                 has_bias=False, weight_init="normal", bias_init="zeros", has_bn=False, momentum=0.997, eps=1e-5, activation=None,
                 alpha=0.2, after_fake=True):
        super().__init__()
        self.conv = Conv2d(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
                           bias_init)
        self._behind(BatchNorm2d(out_channels, eps, momentum) if has_bn else None, activation, alpha)

    def construct(self, x):
        return self._finished(self.conv(x))


class DenseBnAct(_WithNorm):
    """A Dense, `has_bn` a batch norm behind it, and an activation."""

    def __init__(self, in_channels, out_channels, weight_init="normal", bias_init="zeros", has_bias=True, has_bn=False, momentum=0.9,
                 eps=1e-5, activation=None, alpha=0.2, after_fake=True):
        super().__init__()
        self.dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        self._behind(BatchNorm1d(out_channels, eps, momentum) if has_bn else None, activation, alpha)

    def construct(self, x):
        return self._finished(self.dense(x))


class BiDense(Cell):
    """y[.., o] = sum of x1[.., i] w[o, i, j] x2[.., j], and a bias."""

    def __init__(self, in1_channels, in2_channels, out_channels, weight_init=None, bias_init=None, has_bias=True, dtype=mstype.float32):
        super().__init__()
        bound = Uniform(1 / math.sqrt(in1_channels))
        self.weight = Parameter(initializer(bound if weight_init is None else weight_init, [out_channels, in1_channels, in2_channels],
                                            dtype), name="weight")
        self.bias = None
        if has_bias:
            self.bias = Parameter(initializer(bound if bias_init is None else bias_init, [out_channels], dtype), name="bias")

    def construct(self, input1, input2):
        return F.bidense(input1, input2, self.weight, self.bias)
