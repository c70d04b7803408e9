"""Modules: plain classes that hold parameters and compute.

Anything with parameters among its attributes is a module; these have nothing in common but that.
"""

from __future__ import annotations

import math
from typing import Any, Callable

from . import _core, ops
from ._core import Parameter, Tensor
from ._names import missing_name
from .ops import ArrayLike

__all__ = ["BatchNorm2d", "Conv2d", "Dense", "Dropout", "Embedding", "LayerNorm", "RMSNorm", "Sequential"]


class Dense:
    """y = x w + b; w [inputs, outputs] starts uniform in +-1/sqrt(inputs), b likewise."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True):
        bound = 1 / math.sqrt(inputs)
        self.weight = Parameter.initialized([inputs, outputs], "uniform", bound)
        self.bias = Parameter.initialized([outputs], "uniform", bound) if bias else None

    def __call__(self, x: ArrayLike) -> Tensor:
        y = ops.matmul(x, self.weight)
        return y if self.bias is None else y + self.bias


class Embedding:
    """Rows of a table [count, size], which starts normal with deviation 0.02."""

    def __init__(self, count: int, size: int, deviation: float = 0.02):
        self.table = Parameter.initialized([count, size], "normal", deviation)

    def __call__(self, indices: ArrayLike) -> Tensor:
        return ops.gather(self.table, indices)


def _of_norm(size: int, init: str) -> Parameter:
    """Kept and read in full precision whatever products are computed in."""
    parameter = Parameter.initialized([size], init)
    parameter.is_full = True
    return parameter


class LayerNorm:
    """Over the last dim, of `size`."""

    def __init__(self, size: int, epsilon: float = 1e-5):
        self.gamma = _of_norm(size, "ones")
        self.beta = _of_norm(size, "zeros")
        self.epsilon = epsilon

    def __call__(self, x: ArrayLike) -> Tensor:
        return ops.layer_norm(x, self.gamma, self.beta, self.epsilon)


class RMSNorm:
    """Over the last dim, of `size`."""

    def __init__(self, size: int, epsilon: float = 1e-6):
        self.gamma = _of_norm(size, "ones")
        self.epsilon = epsilon

    def __call__(self, x: ArrayLike) -> Tensor:
        return ops.rms_norm(x, self.gamma, self.epsilon)


class Conv2d:
    """Images [batch, inputs, height, width]; weights start uniform in +-1/sqrt(inputs kernel^2)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, bias: bool = True):
        bound = 1 / math.sqrt(inputs * kernel * kernel)
        self.weight = Parameter.initialized([outputs, inputs, kernel, kernel], "uniform", bound)
        self.bias = Parameter.initialized([outputs, 1, 1], "uniform", bound) if bias else None
        self.stride, self.padding = stride, padding

    def __call__(self, x: ArrayLike) -> Tensor:
        y = ops.conv2d(x, self.weight, self.stride, self.padding)
        return y if self.bias is None else y + self.bias


class BatchNorm2d:
    """Over all but the channels of [batch, channels, height, width]: by the whole batch's statistics in a train step, else
    by running ones, which move by `momentum` towards the batch's."""

    def __init__(self, channels: int, epsilon: float = 1e-5, momentum: float = 0.1):
        self.gamma = _of_norm(channels, "ones")
        self.beta = _of_norm(channels, "zeros")
        self.mean = Parameter.initialized([channels], "zeros", is_state=True)
        self.variance = Parameter.initialized([channels], "ones", is_state=True)
        self.epsilon, self.momentum = epsilon, momentum

    def __call__(self, x: ArrayLike) -> Tensor:
        operands = [_core.array_of(x), self.gamma, self.beta, self.mean, self.variance]
        return _core.batch_norm(operands, self.epsilon, self.momentum, "")


class Dropout:
    """While training, zero with probability `rate`, else x / (1 - rate)."""

    def __init__(self, rate: float):
        self.rate = rate

    def __call__(self, x: ArrayLike) -> Tensor:
        return ops.dropout(x, self.rate)


class Sequential:
    """One after the other."""

    def __init__(self, *layers: Callable[[Any], Any]):
        self.layers = list(layers)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


__getattr__ = missing_name(__name__, __all__, {
    "Linear": "Dense(inputs, outputs)", "BatchNorm": "BatchNorm2d", "ModuleList": "a list", "Module": "a plain class",
    "ReLU": "ops.relu", "GELU": "ops.gelu", "SiLU": "ops.silu", "Tanh": "ops.tanh", "Sigmoid": "ops.sigmoid",
    "Softmax": "ops.softmax", "MaxPool2d": "ops.max_pool2d", "AvgPool2d": "ops.avg_pool2d", "Flatten": "ops.flatten",
    "CrossEntropyLoss": "ops.cross_entropy", "MSELoss": "ops.mse_loss", "L1Loss": "ops.l1_loss",
    "MultiheadAttention": "ops.attention",
})
