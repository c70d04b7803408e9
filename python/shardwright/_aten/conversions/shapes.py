"""Operators that move elements and compute none."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from ... import _core, ops
from ..._core import Tensor
from ..folding import expanded_shape
from ..walk import At, Value, conversion


def reshaped(at: At, x: Tensor, shape: Sequence[int]) -> Tensor:
    shape = list(shape)
    if -1 in shape:
        known = math.prod(s for s in shape if s != -1)
        shape[shape.index(-1)] = x.size // known if known else 0
    return x if tuple(shape) == x.shape else at.call("reshape", x, shape=shape)


@conversion("view.default", "_unsafe_view.default", "reshape.default")
def view(at: At, self: Tensor, size: Sequence[int] | None = None, shape: Sequence[int] | None = None) -> Tensor:
    return reshaped(at, self, size if size is not None else shape)  # type: ignore[arg-type]


@conversion("flatten.using_ints")
def flatten(at: At, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    first, last = start_dim % self.ndim, end_dim % self.ndim
    return reshaped(at, self, [*self.shape[:first], math.prod(self.shape[first:last + 1]), *self.shape[last + 1:]])


@conversion("unflatten.int")
def unflatten(at: At, self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim %= self.ndim
    known = math.prod(s for s in sizes if s != -1)
    inner = [self.shape[dim] // known if s == -1 else s for s in sizes]
    return reshaped(at, self, [*self.shape[:dim], *inner, *self.shape[dim + 1:]])


@conversion("unsqueeze.default")
def unsqueeze(at: At, self: Tensor, dim: int) -> Tensor:
    return ops.expand_dims(self, dim)


@conversion("squeeze.default", "squeeze.dim", "squeeze.dims")
def squeeze(at: At, self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    dims = range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    found = [d % self.ndim for d in dims if self.ndim and self.shape[d] == 1]
    return ops.squeeze(self, found) if found else self


@conversion("expand.default")
def expand(at: At, self: Tensor, size: Sequence[int], implicit: bool = False) -> Tensor:
    return broadcast(at, self, expanded_shape(self.shape, size))


@conversion("broadcast_to.default")
def broadcast_to(at: At, self: Tensor, size: Sequence[int]) -> Tensor:
    return broadcast(at, self, expanded_shape(self.shape, size))


@conversion("expand_as.default")
def expand_as(at: At, self: Tensor, other: Tensor) -> Tensor:
    return broadcast(at, self, other.shape)


def broadcast(at: At, x: Tensor, shape: Sequence[int]) -> Tensor:
    return x if tuple(shape) == x.shape else at.call("broadcast", x, shape=list(shape))


@conversion("broadcast_tensors.default")
def broadcast_tensors(at: At, tensors: Sequence[Value]) -> list[Value]:
    shape = np.broadcast_shapes(*(t.shape for t in tensors))
    return [broadcast(at, t, shape) if isinstance(t, Tensor) else np.broadcast_to(t, shape) for t in tensors]


def permuted(at: At, x: Tensor, dims: Sequence[int]) -> Tensor:
    dims = [d % x.ndim for d in dims]
    return x if dims == sorted(dims) else at.call("transpose", x, dims=dims)


@conversion("permute.default")
def permute(at: At, self: Tensor, dims: Sequence[int]) -> Tensor:
    return permuted(at, self, dims)


def swapped(at: At, x: Tensor, a: int, b: int) -> Tensor:
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return permuted(at, x, dims)


@conversion("transpose.int")
def transpose(at: At, self: Tensor, dim0: int, dim1: int) -> Tensor:
    return swapped(at, self, dim0, dim1)


@conversion("t.default")
def t(at: At, self: Tensor) -> Tensor:
    return swapped(at, self, 0, 1) if self.ndim == 2 else self


def sliced(at: At, x: Tensor, dim: int, start: int | None, end: int | None, step: int = 1) -> Tensor:
    """Raises: ShardwrightError if nothing is left."""
    dim %= x.ndim
    first, stop, step = slice(start, end, step).indices(x.shape[dim])
    if first == 0 and stop >= x.shape[dim] and step == 1:
        return x
    if stop <= first:
        raise at.refuse(f"takes nothing of {x.shape[dim]} elements, and no tensor is empty here")
    return at.call("strided_slice", x, dims=[dim], starts=[first], stops=[stop], steps=[step])


@conversion("slice.Tensor")
def slice_(at: At, self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    return sliced(at, self, dim, start, end, step)


@conversion("narrow.default")
def narrow(at: At, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return sliced(at, self, dim, start, start + length)


@conversion("select.int")
def select(at: At, self: Tensor, dim: int, index: int) -> Tensor:
    dim %= self.ndim
    index %= self.shape[dim]
    return ops.squeeze(sliced(at, self, dim, index, index + 1), dim)


@conversion("unbind.int")
def unbind(at: At, self: Tensor, dim: int = 0) -> list[Tensor]:
    return [select(at, self, dim, i) for i in range(self.shape[dim])]


@conversion("split_with_sizes.default")
def split_with_sizes(at: At, self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    return ops.split(self, list(split_sizes), dim) if len(split_sizes) > 1 else (self,)


@conversion("split.Tensor")
def split(at: At, self: Tensor, split_size: int, dim: int = 0) -> Any:
    size = self.shape[dim]
    return split_with_sizes(at, self, [min(split_size, size - i) for i in range(0, size, split_size)], dim)


@conversion("chunk.default")
def chunk(at: At, self: Tensor, chunks: int, dim: int = 0) -> Any:
    return split(at, self, -(-self.shape[dim] // chunks), dim)


def joined(at: At, tensors: Sequence[Value], dim: int) -> Tensor:
    """Raises: ValueError if there is none."""
    tensors = [x for x in tensors if not (isinstance(x, np.ndarray) and x.shape == (0,))]
    like = next((x for x in tensors if isinstance(x, Tensor)), None)
    if len(tensors) == 1:
        return at.tensor(tensors[0])
    all_ = [at.tensor(x, like=like) for x in tensors]
    return at.call("concat", *all_, dim=dim % all_[0].ndim)


@conversion("cat.default")
def cat(at: At, tensors: Sequence[Value], dim: int = 0) -> Tensor:
    return joined(at, tensors, dim)


@conversion("stack.default")
def stack(at: At, tensors: Sequence[Value], dim: int = 0) -> Tensor:
    like = next(x for x in tensors if isinstance(x, Tensor))
    return ops.stack([at.tensor(x, like=like) for x in tensors], dim % (like.ndim + 1))


@conversion("repeat.default")
def repeat(at: At, self: Tensor, repeats: Sequence[int]) -> Tensor:
    x = reshaped(at, self, [1] * (len(repeats) - self.ndim) + list(self.shape))
    return x if all(r == 1 for r in repeats) else at.call("tile", x, repeats=list(repeats))


@conversion("repeat_interleave.self_int")
def repeat_interleave(at: At, self: Tensor, repeats: int, dim: int | None = None, output_size: int | None = None) -> Tensor:
    """Each element of a dim so many times, side by side."""
    x, d = (reshaped(at, self, [self.size]), 0) if dim is None else (self, dim % self.ndim)
    wide = broadcast(at, ops.expand_dims(x, d + 1), [*x.shape[:d + 1], repeats, *x.shape[d + 1:]])
    return reshaped(at, wide, [*x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1:]])


@conversion("roll.default")
def roll(at: At, self: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    if not dims:
        return reshaped(at, roll(at, reshaped(at, self, [self.size]), shifts, [0]), self.shape)
    turned = [0] * self.ndim
    for shift, dim in zip(shifts, dims):
        turned[dim] = (turned[dim] + shift) % self.shape[dim]
    by = {dim: shift for dim, shift in enumerate(turned) if shift}
    return at.call("roll", self, dims=list(by), shifts=list(by.values())) if by else self


@conversion("flip.default")
def flip(at: At, self: Tensor, dims: Sequence[int]) -> Tensor:
    x = self
    for dim in dims:
        if x.shape[dim] > 1:
            places = at.tensor(np.arange(x.shape[dim], dtype=np.int32)[::-1])
            x = at.call("gather", x, places, dim=dim % x.ndim)
    return x


@conversion("pad.default", "constant_pad_nd.default")
def pad(at: At, self: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = 0) -> Tensor:
    if mode != "constant":
        return _mirrored(at, self, pad, mode)
    x = self
    widths = [(x.ndim - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    for dim, before, after in widths:
        if before < 0 or after < 0:  # cut off
            x = sliced(at, x, dim, max(-before, 0), x.shape[dim] - max(-after, 0))
    added = [(dim, max(before, 0), max(after, 0)) for dim, before, after in widths if before > 0 or after > 0]
    if not added:
        return x
    if "int" in x.dtype:
        return _joined_with(at, x, added, int(value or 0))
    return at.call("pad", x, dims=[d for d, _, _ in added], before=[b for _, b, _ in added],
                   after=[a for _, _, a in added], value=float(value or 0))


def _joined_with(at: At, x: Tensor, added: list[tuple[int, int, int]], value: int) -> Tensor:
    """Whole numbers with others around them."""
    for dim, before, after in added:
        parts: list[Value] = [x]
        for n, place in ((before, 0), (after, len(parts))):
            if n:
                sizes = [n if d == dim else s for d, s in enumerate(x.shape)]
                parts.insert(len(parts) if place else 0, np.full(sizes, value, x.dtype))
        x = joined(at, parts, dim)
    return x


def _mirrored(at: At, x: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """Rows of the tensor itself around it, taken by their places."""
    kinds = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in kinds:
        raise at.refuse(f"with mode '{mode}' has no counterpart here; there are constant, {', '.join(kinds)}")
    for i in range(0, len(pad), 2):
        dim = x.ndim - 1 - i // 2
        if pad[i] or pad[i + 1]:
            places = np.pad(np.arange(x.shape[dim]), (pad[i], pad[i + 1]), mode=kinds[mode])  # type: ignore[call-overload]
            x = at.call("gather", x, at.tensor(places.astype(np.int32)), dim=dim)
    return x


@conversion("slice_scatter.default")
def slice_scatter(at: At, self: Value, src: Value, dim: int = 0, start: int | None = None, end: int | None = None,
                  step: int = 1) -> Value:
    dim %= len(self.shape)
    first, stop, step = slice(start, end, step).indices(self.shape[dim])
    if step != 1:
        raise at.refuse("with a step has no counterpart here")
    if first == 0 and stop >= self.shape[dim]:
        return src
    whole = self if isinstance(self, Tensor) else at.tensor(self, like=src if isinstance(src, Tensor) else None)
    parts = [sliced(at, whole, dim, 0, first)] if first else []
    parts.append(src)
    if stop < self.shape[dim]:
        parts.append(sliced(at, whole, dim, stop, None))
    return joined(at, parts, dim)


@conversion("select_scatter.default")
def select_scatter(at: At, self: Value, src: Tensor, dim: int, index: int) -> Value:
    dim %= len(self.shape)
    index %= self.shape[dim]
    return slice_scatter(at, self, ops.expand_dims(src, dim), dim, index, index + 1)


@conversion("copy.default")
def copy(at: At, self: Value, src: Value, non_blocking: bool = False) -> Value:
    """`a[...] = b`, of which b is left."""
    return broadcast(at, _core.cast(at.tensor(src), at.walk.entering(at.node.dtype or "float32")), self.shape)


@conversion("pixel_shuffle.default")
def pixel_shuffle(at: At, self: Tensor, upscale_factor: int) -> Tensor:
    b, c, h, w = self.shape
    r = upscale_factor
    x = permuted(at, reshaped(at, self, [b, c // (r * r), r, r, h, w]), [0, 1, 4, 2, 5, 3])
    return reshaped(at, x, [b, c // (r * r), h * r, w * r])
