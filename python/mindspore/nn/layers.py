"""Layers: cells with parameters of their own, and activations."""

from __future__ import annotations

import math

import numpy

from .._missing import near
from ..common import dtype as mstype
from ..common.initializer import Uniform, initializer
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..ops import functional as F
from ..ops import operations as P
from ..ops import windows as W
from ..ops.primitive import Primitive
from .cell import Cell


def _of_shape(init, default, shape, dtype) -> Tensor:
    """What a parameter starts with. Raises: ValueError of a tensor of another shape."""
    start = initializer(default if init is None else init, list(shape), dtype)
    if tuple(start.shape) != tuple(shape):
        raise ValueError(f"a parameter of shape {tuple(shape)} cannot start with a tensor of shape {start.shape}")
    return start


class Flatten(Cell):
    """Dims from start_dim to end_dim made into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x):
        return F.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class Identity(Cell):
    def construct(self, x):
        return x


def _activation(name: str, attribute: str, kind: type[Primitive]) -> type[Cell]:
    class Activation(Cell):
        __doc__ = kind.__doc__

        def __init__(self):
            super().__init__()
            setattr(self, attribute, kind())

        def construct(self, x):
            return getattr(self, attribute)(x)

    Activation.__name__ = Activation.__qualname__ = name
    return Activation


ReLU = _activation("ReLU", "relu", P.ReLU)
Sigmoid = _activation("Sigmoid", "sigmoid", P.Sigmoid)
Tanh = _activation("Tanh", "tanh", P.Tanh)
SiLU = _activation("SiLU", "silu", P.SiLU)


class GELU(Cell):
    """x times the share of a normal distribution below x."""

    def __init__(self, approximate: bool = True):
        super().__init__()
        self.approximate = approximate
        self.gelu = P.GeLU()

    def construct(self, x):
        return self.gelu(x) if self.approximate else F.gelu(x, "none")


class Softmax(Cell):
    def __init__(self, axis: int = -1):
        super().__init__()
        self.softmax = P.Softmax(axis)

    def construct(self, x):
        return self.softmax(x)


activations = {"relu": ReLU, "sigmoid": Sigmoid, "tanh": Tanh, "silu": SiLU, "gelu": GELU, "softmax": Softmax}


def get_activation(name: str, *settings) -> Cell:
    """By its name. Raises: KeyError of an unknown one."""
    if name not in activations:
        raise KeyError(f"activation '{name}' is unknown{near(name, activations)}; there are {', '.join(activations)}")
    return activations[name](*settings)


class Dense(Cell):
    """y = x w^T + b, with weight [out_channels, in_channels]; inputs of more than 2 dims become rows."""

    def __init__(self, in_channels: int, out_channels: int, weight_init=None, bias_init=None, has_bias: bool = True,
                 activation=None, dtype=mstype.float32):
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} of a Dense is a whole number above 0, not {count!r}")
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, has_bias
        bound = Uniform(1 / math.sqrt(in_channels))
        self.weight = Parameter(_of_shape(weight_init, bound, (out_channels, in_channels), dtype), name="weight")
        self.bias = None
        if has_bias:
            self.bias = Parameter(_of_shape(bias_init, bound, (out_channels,), dtype), name="bias")
            self.bias_add = P.BiasAdd()
        self.matmul = P.MatMul(transpose_b=True)
        self.activation = get_activation(activation) if isinstance(activation, str) else activation

    def construct(self, x):
        shape = x.shape
        if len(shape) != 2:
            x = F.reshape(x, (-1, shape[-1]))
        x = self.matmul(x, self.weight)
        if self.has_bias:
            x = self.bias_add(x, self.bias)
        if self.activation is not None:
            x = self.activation(x)
        return x if len(shape) == 2 else F.reshape(x, (*shape[:-1], self.out_channels))

    def extend_repr(self) -> str:
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Dropout(Cell):
    """While training, zero with probability p (or 1 - keep_prob), else scaled up."""

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype=mstype.float32):
        super().__init__()
        self.p = 1 - keep_prob if p is None else p
        if not 0 <= self.p < 1:
            raise ValueError(f"p of a Dropout is from 0 to below 1, not {self.p}")
        self.dropout = P.Dropout(1 - self.p)

    def construct(self, x):
        return self.dropout(x)[0] if self.training and self.p > 0 else x


class Conv2d(Cell):
    """Images [batch, channels, height, width]; weight [out, in / group, height, width]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same", padding=0, dilation=1,
                 group=1, has_bias=False, weight_init=None, bias_init=None, data_format="NCHW", dtype=mstype.float32):
        super().__init__()
        self.has_bias = has_bias
        self.conv2d = P.Conv2D(out_channels, kernel_size, 1, pad_mode, padding, stride, dilation, group, data_format)
        shape = (out_channels, in_channels // group, *self.conv2d.kernel)
        bound = Uniform(1 / math.sqrt(math.prod(shape[1:])))
        self.weight = Parameter(_of_shape(weight_init, bound, shape, dtype), name="weight")
        self.bias = None
        if has_bias:
            self.bias = Parameter(_of_shape(bias_init, bound, (out_channels,), dtype), name="bias")
            self.bias_add = P.BiasAdd()

    def construct(self, x):
        y = self.conv2d(x, self.weight)
        return self.bias_add(y, self.bias) if self.has_bias else y


class MaxPool2d(Cell):
    """The largest x in each window; return_indices: and where it is in its image."""

    def __init__(self, kernel_size=1, stride=1, pad_mode="valid", padding=0, dilation=1, return_indices=False, ceil_mode=False,
                 data_format="NCHW"):
        super().__init__()
        self.max_pool = P.MaxPool(kernel_size, stride, pad_mode, data_format, padding)
        self.is_plain = dilation in (1, (1, 1)) and not return_indices and not ceil_mode
        self.settings = (kernel_size, stride, pad_mode, padding, dilation, return_indices, ceil_mode)

    def construct(self, x):
        return self.max_pool(x) if self.is_plain and len(x.shape) == 4 else W.max_pool(x, 2, *self.settings)


class AvgPool2d(Cell):
    """The mean of x in each window."""

    def __init__(self, kernel_size=1, stride=1, pad_mode="valid", padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None, data_format="NCHW"):
        super().__init__()
        self.avg_pool = P.AvgPool(kernel_size, stride, pad_mode, data_format, padding)
        self.is_plain = not ceil_mode and count_include_pad and divisor_override is None
        self.settings = (kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad, divisor_override)

    def construct(self, x):
        return self.avg_pool(x) if self.is_plain and len(x.shape) == 4 else W.avg_pool(x, 2, *self.settings)


class PReLU(Cell):
    """x where it is above 0, else w x, with a w for each channel, or one for all."""

    def __init__(self, channel: int = 1, w=0.25):
        super().__init__()
        start = Tensor(numpy.full(channel, w, numpy.float32)) if isinstance(w, (int, float)) else Tensor(w, mstype.float32)
        if tuple(start.shape) != (channel,):
            raise ValueError(f"w of a PReLU has one number for each of {channel} channels, not shape {tuple(start.shape)}")
        self.w = Parameter(start, name="a")
        self.prelu = P.PReLU()

    def construct(self, x):
        return self.prelu(x, self.w)


class Embedding(Cell):
    """Rows of a table [vocab_size, embedding_size] by index. Row `padding_idx` begins with zeros."""

    def __init__(self, vocab_size, embedding_size, use_one_hot=False, embedding_table="normal", dtype=mstype.float32,
                 padding_idx=None):
        super().__init__()
        start = initializer(embedding_table, [vocab_size, embedding_size], dtype)
        if padding_idx is not None:
            if not 0 <= padding_idx < vocab_size:
                raise ValueError(f"padding_idx is from 0 to below vocab_size {vocab_size}, not {padding_idx}")
            rows = start.init_data().asnumpy().copy()
            rows[padding_idx] = 0
            start = Tensor(rows, dtype)
        self.embedding_table = Parameter(start, name="embedding_table")
        self.gather = P.Gather()

    def construct(self, ids):
        return self.gather(self.embedding_table, ids, 0)


class TimeDistributed(Cell):
    """A layer of each slice along a dim."""

    def __init__(self, layer, time_axis: int, reshape_with_axis: int | None = None):
        super().__init__()
        self.layer, self.time_axis = layer, time_axis

    def construct(self, x):
        axis = self.time_axis % len(x.shape)
        return F.stack([self.layer(part) for part in F.unstack(x, axis)], axis)


class EmbeddingLookup(Cell):
    """The same table without its settings; where it is computed is what the plan says."""

    def __init__(self, vocab_size, embedding_size, param_init="normal", target="CPU", slice_mode="batch_slice", manual_shapes=None,
                 max_norm=None, sparse=True, dtype=mstype.float32):
        super().__init__()
        if max_norm is not None or manual_shapes is not None:
            raise ValueError("EmbeddingLookup with max_norm or manual_shapes is not in this front end")
        self.embedding_table = Parameter(initializer(param_init, [vocab_size, embedding_size], dtype), name="embedding_table")
        self.gather = P.Gather()

    def construct(self, indices):
        return self.gather(self.embedding_table, indices, 0)
