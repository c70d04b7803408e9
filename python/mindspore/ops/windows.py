"""Convolutions and pooling as functions, of 1, 2 and 3 dims: those of 2 are the core's."""

from __future__ import annotations

import functools
import itertools
import math

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import at_places, numbers, padded, swapaxes
from .networks import pads_of
from .pointwise import filled_like, where
from .primitive import by_core
from .products import matmul
from .reductions import folded, sliced, taken_along


def listed(value, count: int) -> list[int]:
    """One number for each of so many dims."""
    if value is None or isinstance(value, int):
        return [value] * count
    values = list(value)
    return [v if v is None else int(v) for v in (values * count if len(values) == 1 else values[-count:])]


def sides_of(mode: str, padding, size, kernel, strides, dilations) -> list[tuple[int, int]]:
    """Before and behind each dim, as pad_mode says."""
    mode, rank = str(mode).lower(), len(kernel)
    if rank == 2:
        top, left, bottom, right = pads_of(mode, padding if isinstance(padding, int) or len(padding) == 4 else _sides(padding, 2),
                                           size, kernel, strides, dilations)
        return [(top, bottom), (left, right)]
    if mode == "valid":
        return [(0, 0)] * rank
    if mode == "pad":
        said = _sides(padding, rank)
        return [(said[2 * d], said[2 * d + 1]) for d in range(rank)]
    if mode != "same":
        raise ValueError(f"pad_mode is same, valid or pad, not '{mode}'")
    totals = [max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in zip(size, kernel, strides, dilations)]
    return [(t // 2, t - t // 2) for t in totals]


def _sides(padding, rank: int) -> list[int]:
    """Of one number all, of one for each dim both sides."""
    if isinstance(padding, int):
        return [padding] * (2 * rank)
    padding = list(padding)
    return padding if len(padding) == 2 * rank else [p for p in (padding * rank if len(padding) == 1 else padding) for _ in range(2)]


# ---- convolutions ----

def _conv2d(x, weight, strides, sides, dilations, groups) -> Tensor:
    (top, bottom), (left, right) = sides
    return by_core("conv2d", x, weight, strides=strides, pads=[top, left, bottom, right], dilations=dilations, groups=groups)


def _conv3d(x, weight, strides, sides, dilations, groups) -> Tensor:
    """Of each depth of the weight a convolution of 2 dims, over images of all depths where it stands; added up."""
    x = padded(x, [(0, 0), (0, 0), sides[0], (0, 0), (0, 0)])
    depth = weight.shape[2]
    count = (x.shape[2] - (depth - 1) * dilations[0] - 1) // strides[0] + 1
    total = None
    for k in range(depth):
        first = k * dilations[0]
        part = sliced(x, 2, first, first + (count - 1) * strides[0] + 1, strides[0])
        images = swapaxes(part, 1, 2)
        rows = P.Reshape()(images, (-1, *images.shape[2:]))
        kernel = P.Squeeze(2)(sliced(weight, 2, k, k + 1))
        y = _conv2d(rows, kernel, strides[1:], sides[1:], dilations[1:], groups)
        total = y if total is None else total + y
    y = P.Reshape()(total, (x.shape[0], count, *total.shape[1:]))
    return swapaxes(y, 1, 2)


def convolved(x, weight, strides, sides, dilations, groups: int) -> Tensor:
    """By weight [out, in / groups, ...] of as many dims as there are strides."""
    rank = len(strides)
    if rank == 1:
        y = _conv2d(P.ExpandDims()(x, 2), P.ExpandDims()(weight, 2), [1, *strides], [(0, 0), *sides], [1, *dilations], groups)
        return P.Squeeze(2)(y)
    return (_conv2d if rank == 2 else _conv3d)(x, weight, strides, sides, dilations, groups)


def _biased(y, bias):
    return y if bias is None else y + P.Reshape()(bias, (-1,) + (1,) * (len(y.shape) - 2))


def _conv(rank: int):
    def function(input, weight, bias=None, stride=1, pad_mode="valid", padding=0, dilation=1, groups=1):
        strides, dilations = listed(stride, rank), listed(dilation, rank)
        sides = sides_of(pad_mode, padding, input.shape[2:], weight.shape[2:], strides, dilations)
        return _biased(convolved(input, weight, strides, sides, dilations, groups), bias)

    return function


def deconvolved(x, weight, strides, sides, dilations, groups: int, size) -> Tensor:
    """The gradient of the convolution's input, of this size: weight [in, out / groups, ...]."""
    rank = len(strides)
    if rank == 1:
        y = deconvolved(P.ExpandDims()(x, 2), P.ExpandDims()(weight, 2), [1, *strides], [(0, 0), *sides], [1, *dilations], groups,
                        [1, *size])
        return P.Squeeze(2)(y)
    if rank == 2:
        (top, bottom), (left, right) = sides
        return by_core("conv_transpose2d", x, weight, strides=strides, pads=[top, left, bottom, right], dilations=dilations,
                       groups=groups, size=list(size))
    return _deconvolved_in_depth(x, weight, strides, sides, dilations, groups, size)


def _deconvolved_in_depth(x, weight, strides, sides, dilations, groups, size) -> Tensor:
    """Of each depth of the weight images of 2 dims, put where they stand; added up."""
    b, _, depth = x.shape[:3]
    images = swapaxes(x, 1, 2)
    rows = P.Reshape()(images, (-1, *images.shape[2:]))
    whole = size[0] + sum(sides[0])
    total = None
    for k in range(weight.shape[2]):
        kernel = P.Squeeze(2)(sliced(weight, 2, k, k + 1))
        y = deconvolved(rows, kernel, strides[1:], sides[1:], dilations[1:], groups, size[1:])
        y = swapaxes(P.Reshape()(y, (b, depth, *y.shape[1:])), 1, 2)
        first = k * dilations[0]
        behind = whole - first - ((depth - 1) * strides[0] + 1)
        y = by_core("pad", y, dims=[2], before=[first], after=[max(behind, 0)], gaps=[strides[0] - 1], value=0.0)
        y = y if behind >= 0 else sliced(y, 2, 0, whole)
        total = y if total is None else total + y
    return sliced(total, 2, sides[0][0], whole - sides[0][1])


def deconvolution_size(mode: str, size, kernel, strides, dilations, sides, more) -> list[int]:
    """Of the result, and which sides are cut, as pad_mode says."""
    mode = str(mode).lower()
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if mode == "same":
        return [n * s for n, s in zip(size, strides)]
    if mode == "valid":
        return [n * s + max(r - s, 0) for n, s, r in zip(size, strides, reach)]
    return [(n - 1) * s + r - sum(side) + m for n, s, r, side, m in zip(size, strides, reach, sides, more)]


def conv_transpose(rank: int):
    def function(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        strides, dilations, more = (listed(v, rank) for v in (stride, dilation, output_padding))
        sides = [(p, p) for p in listed(padding, rank)]
        kernel = weight.shape[2:]
        size = deconvolution_size("pad", input.shape[2:], kernel, strides, dilations, sides, more)
        return _biased(deconvolved(input, weight, strides, sides, dilations, groups, size), bias)

    return function


# ---- pooling ----

def _ceiled(size, kernel, strides, sides, dilations) -> list[tuple[int, int]]:
    """More at the end, so that the last window that begins inside (of the image and what is before it) is whole."""
    out = []
    for n, k, s, (before, after), d in zip(size, kernel, strides, sides, dilations):
        reach = (k - 1) * d + 1
        count = -(-(n + before + after - reach) // s) + 1
        if (count - 1) * s >= n + before:
            count -= 1
        out.append((before, max((count - 1) * s + reach - n - before, 0)))
    return out


def max_pooled(x, kernel, strides, sides, dilations) -> Tensor:
    """The largest in each window."""
    rank = len(kernel)
    if rank == 1:
        return P.Squeeze(2)(max_pooled(P.ExpandDims()(x, 2), [1, *kernel], [1, *strides], [(0, 0), *sides], [1, *dilations]))
    if rank == 3:
        b, c, d, h, w = x.shape
        y = max_pooled(P.Reshape()(x, (b, c * d, h, w)), kernel[1:], strides[1:], sides[1:], dilations[1:])
        h, w = y.shape[2:]
        y = P.Reshape()(y, (b, c, d, h * w))
        y = max_pooled(y, [kernel[0], 1], [strides[0], 1], [sides[0], (0, 0)], [dilations[0], 1])
        return P.Reshape()(y, (b, c, y.shape[2], h, w))
    (top, bottom), (left, right) = sides
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if any(side >= r for pair, r in zip(sides, reach) for side in pair):  # windows without an element are not the core's
        x, sides = padded(x, [(0, 0), (0, 0), *sides], value=-3.4028235e38), [(0, 0), (0, 0)]
        (top, bottom), (left, right) = sides
    return by_core("max_pool2d", x, kernel=kernel, strides=strides, pads=[top, left, bottom, right], dilations=dilations)


def mean_pooled(x, kernel, strides, sides, counts_pads: bool, divisor=None, more=None) -> Tensor:
    """The mean in each window, of what is inside, or of pads, too. more: pads at the ends that count never."""
    rank = len(kernel)
    more = more or sides
    if counts_pads and more == sides and divisor is None and rank == 2:
        return by_core("avg_pool2d", x, kernel=kernel, strides=strides, pads=_pads(sides), count_pads=True)
    total = _sums(x, kernel, strides, more)
    if divisor:
        return total * (1 / divisor)
    counts = None
    for n, k, s, (before, after), (_, end) in zip(x.shape[2:], kernel, strides, sides, more):
        places = numpy.arange(0, n + before + end - k + 1, s)
        low, high = (places, numpy.minimum(places + k, n + before + after)) if counts_pads else \
            (numpy.maximum(places, before), numpy.minimum(places + k, n + before))
        line = (high - low).astype(numpy.float32)
        counts = line if counts is None else counts[..., None] * line
    return total * Tensor((1 / counts).astype(numpy.float32))


def _pads(sides) -> list[int]:
    (top, bottom), (left, right) = sides
    return [top, left, bottom, right]


def _sums(x, kernel, strides, sides) -> Tensor:
    """The sum in each window."""
    rank = len(kernel)
    if rank == 1:
        return P.Squeeze(2)(_sums(P.ExpandDims()(x, 2), [1, *kernel], [1, *strides], [(0, 0), *sides]))
    if rank == 3:
        b, c, d, h, w = x.shape
        y = _sums(P.Reshape()(x, (b, c * d, h, w)), kernel[1:], strides[1:], sides[1:])
        h, w = y.shape[2:]
        y = _sums(P.Reshape()(y, (b, c, d, h * w)), [kernel[0], 1], [strides[0], 1], [sides[0], (0, 0)])
        return P.Reshape()(y, (b, c, y.shape[2], h, w))
    x = padded(x, [(0, 0), (0, 0), *sides])
    y = by_core("avg_pool2d", x, kernel=kernel, strides=strides, pads=[0, 0, 0, 0], count_pads=True)
    return y * float(math.prod(kernel))


def max_with_places(x, kernel, strides, sides, dilations) -> tuple[Tensor, Tensor]:
    """The largest of each window, and where it is in its image, counted through."""
    size = x.shape[2:]
    grids = numpy.arange(math.prod(size)).reshape(size)
    lines = [numpy.arange(0, n + sum(side) - (k - 1) * d, s) - side[0]
             for n, k, s, d, side in zip(size, kernel, strides, dilations, sides)]
    windows = []
    for offset in itertools.product(*(range(k) for k in kernel)):
        at = [line + o * d for line, o, d in zip(lines, offset, dilations)]
        inside = [(a >= 0) & (a < n) for a, n in zip(at, size)]
        clipped = [numpy.clip(a, 0, n - 1) for a, n in zip(at, size)]
        is_inside = functools.reduce(lambda a, b: a[..., None] & b, inside)
        windows.append(numpy.where(is_inside, grids[numpy.ix_(*clipped)], -1))
    places = numpy.stack(windows, -1)
    flat = P.Reshape()(x, (*x.shape[:2], -1))
    found = at_places(flat, numpy.maximum(places, 0), 2)
    if (places < 0).any():
        found = where(Tensor(numpy.broadcast_to(places >= 0, found.shape).copy()), found, filled_like(x, -3.4028235e38))
    which = by_core("argmax", found, dim=-1, keep=True)
    values = P.Squeeze(-1)(taken_along(found, which, -1))
    whole = Tensor(numpy.broadcast_to(numpy.maximum(places, 0), found.shape).astype(numpy.int32).copy())
    return values, P.Cast()(P.Squeeze(-1)(taken_along(whole, which, -1)), mstype.int64)


def max_pool(x, rank: int, kernel, strides, mode: str, padding, dilation=1, return_indices=False, ceil_mode=False):
    """As layers and functions say it. x may lack the dim of the batch."""
    if len(x.shape) == rank + 1:
        y = max_pool(P.ExpandDims()(x, 0), rank, kernel, strides, mode, padding, dilation, return_indices, ceil_mode)
        return tuple(P.Squeeze(0)(t) for t in y) if return_indices else P.Squeeze(0)(y)
    kernel, dilations = listed(kernel, rank), listed(dilation, rank)
    strides = kernel if strides is None else listed(strides, rank)
    sides = sides_of(mode, padding, x.shape[2:], kernel, strides, dilations)
    if ceil_mode:
        sides = _ceiled(x.shape[2:], kernel, strides, sides, dilations)
    return (max_with_places if return_indices else max_pooled)(x, kernel, strides, sides, dilations)


def avg_pool(x, rank: int, kernel, strides, mode: str, padding, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if len(x.shape) == rank + 1:
        y = avg_pool(P.ExpandDims()(x, 0), rank, kernel, strides, mode, padding, ceil_mode, count_include_pad, divisor_override)
        return P.Squeeze(0)(y)
    kernel = listed(kernel, rank)
    strides = kernel if strides is None else listed(strides, rank)
    sides = sides_of(mode, padding, x.shape[2:], kernel, strides, [1] * rank)
    more = _ceiled(x.shape[2:], kernel, strides, sides, [1] * rank) if ceil_mode else sides
    counts = count_include_pad and str(mode).lower() != "same"
    return mean_pooled(x, kernel, strides, sides, counts, divisor_override, more)


def _max_pool(rank: int):
    def function(x, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        return max_pool(x, rank, kernel_size, stride, "pad", padding, dilation, return_indices, ceil_mode)

    return function


def _avg_pool(rank: int, own_stride=1):
    def function(input_x, kernel_size=1, stride=own_stride, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=0):
        return avg_pool(input_x, rank, kernel_size, stride, "pad", padding, ceil_mode, count_include_pad, divisor_override)

    return function


def _lp_pool(rank: int):
    def function(x, norm_type, kernel_size, stride=None, ceil_mode=False):
        power, kernel = float(norm_type), listed(kernel_size, rank)
        means = avg_pool(P.Pow()(x, power), rank, kernel, stride, "valid", 0, ceil_mode)
        return P.Pow()(means * float(math.prod(kernel)), 1 / power)

    return function


def _window_of(size: int, count: int, i: int) -> tuple[int, int]:
    return i * size // count, -(-(i + 1) * size // count)


def _window_means(size: int, count: int) -> numpy.ndarray:
    """Column i has the shares of elements of a line in window i: those from floor(i n / m) up to ceil((i + 1) n / m)."""
    out = numpy.zeros((size, count), numpy.float32)
    for i in range(count):
        first, last = _window_of(size, count, i)
        out[first:last, i] = 1 / (last - first)
    return out


def adaptive_avg_pool(x, output_size, rank: int) -> Tensor:
    """Means over windows, so many that the result has this size; windows overlap where sizes do not divide."""
    size = x.shape[-rank:]
    wanted = [n if m is None else m for n, m in zip(size, listed(output_size, rank))]
    if rank == 2 and len(x.shape) == 4 and not any(n % m for n, m in zip(size, wanted)):
        window = [n // m for n, m in zip(size, wanted)]
        return by_core("avg_pool2d", x, kernel=window, strides=window, pads=[0, 0, 0, 0])
    last = len(x.shape) - 1
    for d, n, m in zip(range(len(x.shape) - rank, len(x.shape)), size, wanted):
        if n != m:
            x = swapaxes(matmul(swapaxes(x, d, last), Tensor(_window_means(n, m))), d, last)
    return x


def adaptive_max_pool(x, output_size, rank: int, return_indices=False):
    """The same with the largest."""
    if return_indices:
        raise ValueError("adaptive_max_pool with return_indices=True is not in this front end")
    size = x.shape[-rank:]
    wanted = [n if m is None else m for n, m in zip(size, listed(output_size, rank))]
    for d, n, m in zip(range(len(x.shape) - rank, len(x.shape)), size, wanted):
        parts = [folded(sliced(x, d, *_window_of(n, m, i)), d, P.Maximum()) for i in range(m)]
        x = P.Concat(d)(parts) if len(parts) > 1 else parts[0]
    return x


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The elements of each window as a column."""
    kernel, dilations, strides = (listed(v, 2) for v in (kernel_size, dilation, stride))
    x = padded(input, [(0, 0), (0, 0), *((p, p) for p in listed(padding, 2))])
    b, c, h, w = x.shape
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip((h, w), kernel, dilations, strides)]
    rows, columns = (numpy.arange(k)[:, None] * d + numpy.arange(m)[None] * s
                     for k, d, s, m in zip(kernel, dilations, strides, counts))
    places = rows[:, None, :, None] * w + columns[None, :, None, :]
    y = at_places(P.Reshape()(x, (b, c, h * w)), places.reshape(-1), 2)
    return P.Reshape()(y, (b, c * math.prod(kernel), math.prod(counts)))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns of windows added up where they were."""
    size = numbers(output_size)
    kernel, dilations, strides, sides = (listed(v, 2) for v in (kernel_size, dilation, stride, padding))
    h, w = (n + 2 * p for n, p in zip(size, sides))
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip((h, w), kernel, dilations, strides)]
    rows, columns = (numpy.arange(k)[:, None] * d + numpy.arange(m)[None] * s
                     for k, d, s, m in zip(kernel, dilations, strides, counts))
    places = (rows[:, None, :, None] * w + columns[None, :, None, :]).reshape(-1).astype(numpy.int32)
    b = input.shape[0]
    c = input.shape[1] // math.prod(kernel)
    y = by_core("unsorted_segment_sum", P.Reshape()(input, (b, c, -1)), Tensor(places), count=h * w, dim=2)
    return padded(P.Reshape()(y, (b, c, h, w)), [(0, 0), (0, 0), *((-p, -p) for p in sides)])


functions = {
    "conv1d": _conv(1), "conv2d": _conv(2), "conv3d": _conv(3), "max_pool2d": _max_pool(2), "max_pool3d": _max_pool(3),
    "avg_pool1d": _avg_pool(1), "avg_pool2d": _avg_pool(2), "avg_pool3d": _avg_pool(3), "lp_pool1d": _lp_pool(1),
    "lp_pool2d": _lp_pool(2), **{f"adaptive_avg_pool{rank}d": lambda input, output_size, rank=rank: adaptive_avg_pool(
        input, output_size, rank) for rank in (1, 2, 3)},
    **{f"adaptive_max_pool{rank}d": lambda input, output_size, return_indices=False, rank=rank: adaptive_max_pool(
        input, output_size, rank, return_indices) for rank in (1, 2, 3)},
    "unfold": unfold, "fold": fold}
