"""Convolutions, pools and changes of an image's size."""

from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from ... import ops
from ..._core import Tensor
from ..walk import At, Value, conversion, sequence
from .reductions import reduced
from .shapes import permuted, reshaped


def _with_bias(at: At, y: Tensor, bias: Value) -> Tensor:
    return y if bias is None else at.call("add", y, reshaped(at, bias, [bias.shape[0]] + [1] * (y.ndim - 2)))


def _convolved(at: At, x: Tensor, weight: Tensor, stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int],
               groups: int) -> Tensor:
    """pads: before and after of each dim, rows before columns."""
    return at.call("conv2d", x, weight, strides=list(stride), pads=list(pads), dilations=list(dilation), groups=groups)


@conversion("conv2d.default")
def conv2d(at: At, input: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1, padding: Value = 0,
           dilation: Value = 1, groups: int = 1) -> Tensor:
    top, left = sequence(padding, 2)
    y = _convolved(at, input, weight, sequence(stride, 2), [top, left, top, left], sequence(dilation, 2), groups)
    return _with_bias(at, y, bias)


@conversion("conv2d.padding")
def conv2d_padded(at: At, input: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1, padding: str = "valid",
                  dilation: Value = 1, groups: int = 1) -> Tensor:
    dilation = sequence(dilation, 2)
    reach = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, weight.shape[2:])]
    before, after = [r // 2 for r in reach], [r - r // 2 for r in reach]
    return _with_bias(at, _convolved(at, input, weight, sequence(stride, 2), before + after, dilation, groups), bias)


@conversion("conv1d.default", "conv1d.padding")
def conv1d(at: At, input: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1, padding: Value = 0,
           dilation: Value = 1, groups: int = 1) -> Tensor:
    """A convolution of images of one row."""
    step, reach = sequence(stride, 1)[0], sequence(dilation, 1)[0]
    total = reach * (weight.shape[2] - 1) if padding == "same" else 0
    before, after = (total // 2, total - total // 2) if isinstance(padding, str) else sequence(padding, 1) * 2
    y = _convolved(at, ops.expand_dims(input, 2), ops.expand_dims(weight, 2), [1, step], [0, before, 0, after], [1, reach],
                   groups)
    return _with_bias(at, ops.squeeze(y, 2), bias)


@conversion("conv_transpose2d.input")
def conv_transpose2d(at: At, input: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1, padding: Value = 0,
                     output_padding: Value = 0, groups: int = 1, dilation: Value = 1) -> Tensor:
    stride, padding, extra, dilation = (sequence(v, 2) for v in (stride, padding, output_padding, dilation))
    return _with_bias(at, _transposed(at, input, weight, stride, padding, extra, dilation, groups), bias)


def _transposed(at: At, x: Tensor, weight: Tensor, stride: list[int], padding: list[int], extra: list[int], dilation: list[int],
                groups: int) -> Tensor:
    """Where `extra` reaches a stride further than the last window, less is cut off behind, or zeros are added."""
    size, after, zeros = [], [], []
    for d in range(2):
        less = min(padding[d], extra[d]) if extra[d] >= stride[d] else 0
        zeros.append(max(extra[d] - less - stride[d] + 1, 0))
        after.append(padding[d] - less)
        size.append((x.shape[d + 2] - 1) * stride[d] + dilation[d] * (weight.shape[d + 2] - 1) + 1 - 2 * padding[d]
                    + extra[d] - zeros[d])
    y = at.call("conv_transpose2d", x, weight, size=size, strides=stride, pads=[*padding, *after], dilations=dilation,
                groups=groups)
    return at.call("pad", y, dims=[2, 3], before=[0, 0], after=zeros, value=0.0) if any(zeros) else y


@conversion("conv_transpose1d.default")
def conv_transpose1d(at: At, input: Tensor, weight: Tensor, bias: Value = None, stride: Value = 1, padding: Value = 0,
                     output_padding: Value = 0, groups: int = 1, dilation: Value = 1) -> Tensor:
    steps, pads, extra, reach = ([of_rows, sequence(v, 1)[0]] for v, of_rows in
                                 ((stride, 1), (padding, 0), (output_padding, 0), (dilation, 1)))
    y = _transposed(at, ops.expand_dims(input, 2), ops.expand_dims(weight, 2), steps, pads, extra, reach, groups)
    return _with_bias(at, ops.squeeze(y, 2), bias)


@conversion("convolution.default")
def convolution(at: At, input: Tensor, weight: Tensor, bias: Value, stride: Value, padding: Value, dilation: Value,
                transposed: bool, output_padding: Value, groups: int) -> Tensor:
    if input.ndim == 5:
        raise at.refuse("of three dims has no counterpart here")
    if transposed:
        kind = conv_transpose2d if input.ndim == 4 else conv_transpose1d
        return kind(at, input, weight, bias, stride, padding, output_padding, groups, dilation)
    kind = conv2d if input.ndim == 4 else conv1d  # type: ignore[assignment]
    return kind(at, input, weight, bias, stride, padding, dilation, groups)


def _pooled(at: At, op: str, x: Tensor, kernel: Value, stride: Value, padding: Value, ceil_mode: bool, **more: object) -> Tensor:
    size = sequence(kernel, 2)
    steps, pads = sequence(stride, 2) if stride else size, sequence(padding, 2)
    after = list(pads)
    if ceil_mode:
        for d in range(2):
            rest = (x.shape[d + 2] + 2 * pads[d] - size[d]) % steps[d]
            if rest:  # one window more, if it begins inside
                start = x.shape[d + 2] + 2 * pads[d] - size[d] - rest + steps[d]
                after[d] += steps[d] - rest if start < x.shape[d + 2] + pads[d] else 0
        if op == "avg_pool2d" and after != pads and any(pads):
            raise at.refuse("with ceil_mode and padding has no counterpart here")
        if op == "avg_pool2d" and after != pads:
            more = {"count_pads": False}
    return at.call(op, x, kernel=size, strides=steps, pads=[*pads, *after], **more)


@conversion("max_pool2d.default", "max_pool2d_with_indices.default")
def max_pool2d(at: At, self: Tensor, kernel_size: Value, stride: Value = (), padding: Value = 0, dilation: Value = 1,
               ceil_mode: bool = False) -> Value:
    if set(sequence(dilation, 2)) != {1}:
        raise at.refuse("with dilation has no counterpart here")
    y = _pooled(at, "max_pool2d", self, kernel_size, stride, padding, ceil_mode)
    return y if at.node.op == "aten.max_pool2d.default" else (y, None)


@conversion("max_pool1d.default")
def max_pool1d(at: At, self: Tensor, kernel_size: Value, stride: Value = (), padding: Value = 0, dilation: Value = 1,
               ceil_mode: bool = False) -> Tensor:
    k, p = sequence(kernel_size, 1)[0], sequence(padding, 1)[0]
    step = sequence(stride, 1)[0] if stride else k
    return ops.squeeze(_pooled(at, "max_pool2d", ops.expand_dims(self, 2), [1, k], [1, step], [0, p], ceil_mode), 2)


@conversion("avg_pool2d.default")
def avg_pool2d(at: At, self: Tensor, kernel_size: Value, stride: Value = (), padding: Value = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    if divisor_override is not None:
        raise at.refuse("with divisor_override has no counterpart here")
    return _pooled(at, "avg_pool2d", self, kernel_size, stride, padding, ceil_mode, count_pads=bool(count_include_pad))


@conversion("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default", "adaptive_avg_pool1d.default")
def adaptive_avg_pool2d(at: At, self: Tensor, output_size: Value) -> Tensor:
    rank = 1 if "pool1d" in at.node.op else 2
    wanted = sequence(output_size, rank)
    dims = list(range(self.ndim - rank, self.ndim))
    if wanted == [1] * rank:
        return reduced(at, "reduce_mean", self, dims, True)
    if all(self.shape[d] == n for d, n in zip(dims, wanted)):
        return self
    return _averaged(at, self, dims, wanted)


def _averaged(at: At, x: Tensor, dims: list[int], wanted: list[int]) -> Tensor:
    """Each of so many windows, which may overlap and be of different sizes: products with what each takes."""
    for dim, n in zip(dims, wanted):
        size = x.shape[dim]
        if size % n == 0:
            x = reduced(at, "reduce_mean", reshaped(at, x, [*x.shape[:dim], n, size // n, *x.shape[dim + 1:]]), [dim + 1], False)
            continue
        shares = np.zeros((size, n))
        for i in range(n):
            begin, end = i * size // n, -(-(i + 1) * size // n)
            shares[begin:end, i] = 1 / (end - begin)
        x = _along(at, x, dim, shares)
    return x


def _along(at: At, x: Tensor, dim: int, shares: np.ndarray) -> Tensor:
    """Element j of a dim becomes the sum over i of x[i] shares[i, j]."""
    order = [d for d in range(x.ndim) if d != dim] + [dim]
    back = [order.index(d) for d in range(x.ndim)]
    return permuted(at, at.call("matmul", permuted(at, x, order), at.tensor(shares, like=x)), back)


def _wanted(at: At, x: Tensor, size: Value, factors: Value) -> list[int]:
    if size:
        return list(size)
    return [math.floor(s * f) for s, f in zip(x.shape[2:], factors)]


def _resized(at: At, x: Tensor, size: Sequence[int], mode: str, corners: bool = False) -> Tensor:
    if x.ndim == 3:  # images of one row
        return ops.squeeze(_resized(at, ops.expand_dims(x, 2), [1, *size], mode, corners), 2)
    return at.call("resize2d", x, size=list(size), mode=mode, align_corners=corners)


@conversion("upsample_nearest2d.vec", "upsample_nearest1d.vec")
def upsample_nearest(at: At, input: Tensor, output_size: Value = None, scale_factors: Value = None) -> Tensor:
    """PyTorch finds places in f32: where rounding, or a factor that leads to no whole size, gives others than quotients of integers
    are, rows are taken by their places."""
    wanted = _wanted(at, input, output_size, scale_factors)
    places = []
    for d, (n, size) in enumerate(zip(wanted, input.shape[2:])):
        step = 1 / scale_factors[d] if scale_factors else size / n
        theirs = np.minimum(np.floor(np.arange(n, dtype=np.float32) * np.float32(step)), size - 1).astype(np.int32)
        places.append(np.arange(n, dtype=np.int32) * size // n if n in (size, 2 * size) else theirs)
    if all(np.array_equal(p, np.arange(n) * size // n) for p, n, size in zip(places, wanted, input.shape[2:])):
        return _resized(at, input, wanted, "nearest")
    x = input
    for d, place in enumerate(places, 2):
        x = at.call("gather", x, at.tensor(place), dim=d)
    return x


@conversion("upsample_bilinear2d.vec", "upsample_linear1d.vec")
def upsample_linear(at: At, input: Tensor, output_size: Value = None, align_corners: bool = False,
                    scale_factors: Value = None) -> Tensor:
    """By factors that do not lead to whole sizes it is a product with the weights of the two pixels beside each new one, dim by dim."""
    wanted = _wanted(at, input, output_size, scale_factors)
    if align_corners or not scale_factors or all(n == s * f for n, s, f in zip(wanted, input.shape[2:], scale_factors)):
        return _resized(at, input, wanted, "bilinear", align_corners)
    x = input
    for dim, n in enumerate(wanted, 2):
        size = x.shape[dim]
        places = np.maximum((np.arange(n) + 0.5) / scale_factors[dim - 2] - 0.5, 0)
        left = np.minimum(np.floor(places).astype(int), size - 1)
        right, share = np.minimum(left + 1, size - 1), places - left
        shares = np.zeros((size, n))
        np.add.at(shares, (left, np.arange(n)), 1 - share)
        np.add.at(shares, (right, np.arange(n)), share)
        x = _along(at, x, dim, shares)
    return x
