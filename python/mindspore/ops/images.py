"""Images of other sizes, what lies at places of them, and their pixels as channels."""

from __future__ import annotations

import math

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import at_places, padded, swapaxes
from .places import gather_nd
from .primitive import by_core
from .products import matmul
from .reductions import sliced
from .windows import adaptive_avg_pool, listed


def _line_weights(size: int, wanted: int, is_aligned: bool) -> numpy.ndarray:
    """Column i has the shares of elements of a line in element i of one of another size."""
    out = numpy.zeros((size, wanted), numpy.float32)
    for i in range(wanted):
        if is_aligned:
            place = i * (size - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            place = min(max((i + 0.5) * size / wanted - 0.5, 0.0), size - 1)
        low = min(int(place), size - 1)
        high = min(low + 1, size - 1)
        out[low, i] += 1 - (place - low)
        out[high, i] += place - low
    return out


def resized(x, size, mode: str, is_aligned=False, is_half=True) -> Tensor:
    """Images of `size`: nearest, bilinear, with corners that lie on each other or with middles of pixels that do."""
    size = [int(s) for s in size]
    if mode == "nearest" and not is_aligned:
        return by_core("resize2d", x, size=size, mode="nearest")
    if mode == "nearest":
        for d, n in ((2, size[0]), (3, size[1])):
            step = (x.shape[d] - 1) / (n - 1) if n > 1 else 0.0
            x = at_places(x, [int(math.floor(i * step + 0.5)) for i in range(n)], d)
        return x
    if is_aligned or is_half:
        return by_core("resize2d", x, size=size, mode="bilinear", align_corners=bool(is_aligned))
    return _by_lines(x, size, _plain_weights)


def _plain_weights(size: int, wanted: int) -> numpy.ndarray:
    """The place of element i is i n / m."""
    out = numpy.zeros((size, wanted), numpy.float32)
    for i in range(wanted):
        place = i * (size / wanted)
        low = min(int(place), size - 1)
        out[low, i] += 1 - (place - low)
        out[min(low + 1, size - 1), i] += place - low
    return out


def _by_lines(x, size, weights) -> Tensor:
    last = len(x.shape) - 1
    for d, m in zip(range(2, len(x.shape)), size):
        if x.shape[d] != m:
            x = swapaxes(matmul(swapaxes(x, d, last), Tensor(weights(x.shape[d], m))), d, last)
    return x


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
    """Lines, images or volumes of another size."""
    rank = len(input.shape) - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate takes size or scale_factor")
    if size is None:
        factors = [scale_factor] * rank if isinstance(scale_factor, (int, float)) else list(scale_factor)
        size = [int(math.floor(n * f)) for n, f in zip(input.shape[2:], factors)]
    size = listed(size, rank)
    known = {"nearest": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,), "area": (1, 2, 3)}
    if rank not in known.get(mode, ()):
        raise ValueError(f"interpolate in mode {mode!r} of {rank} dims is not in this front end; there are "
                         + ", ".join(f"{m} ({', '.join(map(str, r))})" for m, r in known.items()))
    if mode == "area":
        return adaptive_avg_pool(input, tuple(size), rank)
    if mode == "nearest":
        if rank == 2:
            return resized(input, size, "nearest")
        for d, m in zip(range(2, rank + 2), size):
            input = at_places(input, [i * input.shape[d] // m for i in range(m)], d)
        return input
    if rank == 2:
        return resized(input, size, "bilinear", bool(align_corners))
    return _by_lines(input, size, lambda n, m: _line_weights(n, m, bool(align_corners)))


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Of images what lies at places between -1 and 1."""
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border") or len(input.shape) != 4:
        raise ValueError(f"grid_sample of {len(input.shape) - 2} dims in mode {mode!r} with padding_mode {padding_mode!r} is not in "
                         "this front end; there are bilinear and nearest of 2 dims, with zeros or border")
    b, c, h, w = input.shape
    rows = P.Transpose()(input, (0, 2, 3, 1))
    x, y = (P.Squeeze(-1)(sliced(grid, 3, i, i + 1)) for i in (0, 1))
    x, y = ((t + 1) * ((n - 1) / 2) if align_corners else ((t + 1) * n - 1) * 0.5 for t, n in ((x, w), (y, h)))
    if padding_mode == "border":
        x, y = (by_core("clip", t, min=0.0, max=float(n - 1)) for t, n in ((x, w), (y, h)))
    images = Tensor(numpy.broadcast_to(numpy.arange(b, dtype=numpy.int32)[:, None, None], x.shape).copy())

    def pixels(px, py, share):
        inside = P.LogicalAnd()(P.LogicalAnd()(px >= 0.0, px <= float(w - 1)), P.LogicalAnd()(py >= 0.0, py <= float(h - 1)))
        ix, iy = (P.Cast()(by_core("clip", t, min=0.0, max=float(n - 1)), mstype.int32) for t, n in ((px, w), (py, h)))
        values = gather_nd(rows, P.Stack(-1)([images, iy, ix]))
        weight = P.Cast()(inside, input.dtype)
        return values * P.ExpandDims()(weight if share is None else weight * share, -1)

    if mode == "nearest":
        total = pixels(P.Round()(x), P.Round()(y), None)
    else:
        left, top = P.Floor()(x), P.Floor()(y)
        right, bottom = x - left, y - top
        total = pixels(left, top, (1 - right) * (1 - bottom)) + pixels(left + 1, top, right * (1 - bottom)) \
            + pixels(left, top + 1, (1 - right) * bottom) + pixels(left + 1, top + 1, right * bottom)
    return P.Transpose()(total, (0, 3, 1, 2))


def affine_grid(theta, size, align_corners=False):
    """Places of images that are moved, turned and stretched."""
    _, _, h, w = size
    lines = [numpy.linspace(-1, 1, n) if align_corners else (2 * numpy.arange(n) + 1) / n - 1 for n in (w, h)]
    grid = numpy.stack([*numpy.meshgrid(*lines), numpy.ones((h, w))], -1).astype(numpy.float32)
    return P.Reshape()(matmul(Tensor(grid.reshape(1, h * w, 3)), swapaxes(theta, 1, 2)), (theta.shape[0], h, w, 2))


def rotary_position_embedding(x, cos, sin, mode=0):
    """Halves of the last dim turned by angles."""
    if mode != 0:
        raise ValueError(f"rotary_position_embedding in mode {mode} is not in this front end; there is 0")
    half = x.shape[-1] // 2
    a, b = sliced(x, -1, 0, half), sliced(x, -1, half, 2 * half)
    return x * cos + P.Concat(-1)([-b, a]) * sin


# ---- pixels and channels ----

def pixel_shuffle(input, upscale_factor):
    """Channels as smaller pixels."""
    r = upscale_factor
    *lead, c, h, w = input.shape
    n = len(lead)
    x = P.Reshape()(input, (*lead, c // r**2, r, r, h, w))
    x = P.Transpose()(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return P.Reshape()(x, (*lead, c // r**2, h * r, w * r))


def pixel_unshuffle(input, downscale_factor):
    """Smaller pixels as channels."""
    r = downscale_factor
    *lead, c, h, w = input.shape
    n = len(lead)
    x = P.Reshape()(input, (*lead, c, h // r, r, w // r, r))
    x = P.Transpose()(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return P.Reshape()(x, (*lead, c * r**2, h // r, w // r))


def channel_shuffle(x, groups):
    b, c, *rest = x.shape
    y = swapaxes(P.Reshape()(x, (b, groups, c // groups, *rest)), 1, 2)
    return P.Reshape()(y, x.shape)


def space_to_depth(x, block: int):
    b, c, h, w = x.shape
    y = P.Reshape()(x, (b, c, h // block, block, w // block, block))
    return P.Reshape()(P.Transpose()(y, (0, 3, 5, 1, 2, 4)), (b, c * block**2, h // block, w // block))


def depth_to_space(x, block: int):
    b, c, h, w = x.shape
    y = P.Reshape()(x, (b, block, block, c // block**2, h, w))
    return P.Reshape()(P.Transpose()(y, (0, 3, 4, 1, 5, 2)), (b, c // block**2, h * block, w * block))


def space_to_batch_nd(input_x, block_size, paddings):
    x = padded(input_x, [(0, 0), (0, 0), *[tuple(p) for p in paddings]])
    b, c, h, w = x.shape
    m, n = block_size if not isinstance(block_size, int) else (block_size,) * 2
    y = P.Reshape()(x, (b, c, h // m, m, w // n, n))
    return P.Reshape()(P.Transpose()(y, (3, 5, 0, 1, 2, 4)), (b * m * n, c, h // m, w // n))


def batch_to_space_nd(input_x, block_shape, crops):
    m, n = block_shape if not isinstance(block_shape, int) else (block_shape,) * 2
    b, c, h, w = input_x.shape
    y = P.Reshape()(input_x, (m, n, b // (m * n), c, h, w))
    y = P.Reshape()(P.Transpose()(y, (2, 3, 4, 0, 5, 1)), (b // (m * n), c, h * m, w * n))
    return padded(y, [(0, 0), (0, 0), *[(-c[0], -c[1]) for c in crops]])


functions = {"interpolate": interpolate, "upsample": interpolate, "grid_sample": grid_sample, "affine_grid": affine_grid,
             "rotary_position_embedding": rotary_position_embedding, "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle,
             "channel_shuffle": channel_shuffle, "space_to_batch_nd": space_to_batch_nd, "batch_to_space_nd": batch_to_space_nd}
