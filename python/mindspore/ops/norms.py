"""Norms as functions."""

from __future__ import annotations

import math

import numpy

from ..common.tensor import Tensor
from . import operations as P
from .arrangements import swapaxes
from .primitive import by_core
from .products import matmul
from .windows import listed


def batch_norm(input_x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    """By known moments, or by those of the batch."""
    channels = (1, -1) + (1,) * (len(input_x.shape) - 2)
    mean, variance = (by_core("stop_gradient", t) for t in (running_mean, running_var))
    if training:
        dims = tuple(d for d in range(len(input_x.shape)) if d != 1)
        mean = P.ReduceMean()(input_x, dims)
        variance = P.ReduceMean()(P.Square()(input_x - P.Reshape()(mean, channels)), dims)
    scale = P.Rsqrt()(variance + float(eps))
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return input_x * P.Reshape()(scale, channels) + P.Reshape()(shift, channels)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    channels = input.shape[1]
    weight, bias = (Tensor(numpy.full(channels, value, numpy.float32)) if given is None else given
                    for given, value in ((weight, 1), (bias, 0)))
    return by_core("group_norm", input, weight, bias, groups=int(num_groups), epsilon=float(eps))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    shape = tuple(listed(normalized_shape, 1) if isinstance(normalized_shape, int) else normalized_shape)
    flat = P.Reshape()(input, (*input.shape[:len(input.shape) - len(shape)], math.prod(shape)))
    weight, bias = (Tensor(numpy.full(math.prod(shape), value, numpy.float32)) if given is None else P.Reshape()(given, (-1,))
                    for given, value in ((weight, 1), (bias, 0)))
    return P.Reshape()(by_core("layer_norm", flat, weight, bias, epsilon=float(eps)), input.shape)


def rms_norm(x, gamma, epsilon=1e-06):
    """And 1 / sqrt(mean of x^2 + epsilon)."""
    dims = tuple(range(len(x.shape) - len(gamma.shape), len(x.shape)))
    return (by_core("rms_norm", x, gamma, epsilon=float(epsilon)),
            P.Rsqrt()(P.ReduceMean(True)(P.Square()(x), dims) + float(epsilon)))


def lrn(x, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, norm_region="ACROSS_CHANNELS"):
    """x / (bias + alpha sum of x^2 over near channels)^beta"""
    size = x.shape[1]
    near = (numpy.abs(numpy.subtract.outer(numpy.arange(size), numpy.arange(size))) <= depth_radius).astype(numpy.float32)
    sums = swapaxes(matmul(swapaxes(P.Square()(x), 1, -1), Tensor(near)), 1, -1)
    return x * P.Pow()(sums * float(alpha) + float(bias), -float(beta))


functions = {"batch_norm": batch_norm, "group_norm": group_norm, "layer_norm": layer_norm, "rms_norm": rms_norm, "lrn": lrn}
