"""Operators that take elements by their places."""

from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, Value, conversion
from .elementwise import scaled
from .shapes import broadcast, pad, permuted, reshaped, sliced


def _is_range(places: np.ndarray) -> bool:
    return places.ndim == 1 and places.size > 0 and bool(np.all(np.diff(places) == 1)) and places[0] >= 0


def rows_of(at: At, table: Tensor, indices: Value, dim: int) -> Tensor:
    """Slices along a dim; where their places are a range that is known, that part of the table."""
    if isinstance(indices, Tensor):
        return at.call("gather", table, indices, dim=dim)
    places = np.asarray(indices)
    places = np.where(places < 0, places + table.shape[dim], places)
    lead = [s for s in places.shape[:-1]]
    flat = places.reshape(-1, places.shape[-1]) if places.ndim > 1 else places[None] if places.ndim else None
    if flat is not None and flat.strides[0] == 0 or flat is not None and bool(np.all(flat == flat[:1])):
        if _is_range(flat[0]):
            part = sliced(at, table, dim, int(flat[0, 0]), int(flat[0, -1]) + 1)
            shape = [*table.shape[:dim], *lead, len(flat[0]), *table.shape[dim + 1:]]
            part = reshaped(at, part, [*table.shape[:dim], *[1] * len(lead), len(flat[0]), *table.shape[dim + 1:]])
            return broadcast(at, part, shape)
    return at.call("gather", table, at.tensor(places.astype(np.int32)), dim=dim)


@conversion("index_select.default")
def index_select(at: At, self: Tensor, dim: int, index: Value) -> Tensor:
    return rows_of(at, self, index, dim % self.ndim)


@conversion("index.Tensor")
def index(at: At, self: Value, indices: Sequence[Value]) -> Tensor:
    said = [(d, i) for d, i in enumerate(indices) if i is not None]
    said = [(d, np.flatnonzero(i) if isinstance(i, np.ndarray) and i.dtype == bool and i.ndim == 1 else i) for d, i in said]
    for _, i in said:
        if (i.dtype if isinstance(i, Tensor) else str(i.dtype)) == "bool":
            raise at.refuse("by a mask that is data makes as many elements as there are: no plan knows how many; "
                            "multiply by the mask, or use torch.where")
    x = at.tensor(self)
    if len(said) == 1:
        return rows_of(at, x, said[0][1], said[0][0])
    dims = [d for d, _ in said]
    if dims != list(range(dims[0], dims[0] + len(dims))):
        raise at.refuse(f"of dims {dims}, which are not side by side, has no counterpart here")
    if all(isinstance(i, np.ndarray) for _, i in said):
        found = _of_grid(at, x, dims[0], [np.asarray(i) for _, i in said])
        if found is not None:
            return found
    return _by_one_index(at, x, dims, [i for _, i in said])


def _of_grid(at: At, x: Tensor, first: int, places: list[np.ndarray]) -> Tensor | None:
    """Ranges that are crossed with each other: each dim is indexed alone. Nothing if they are something else."""
    rank = max(p.ndim for p in places)
    aligned = [p.reshape((1,) * (rank - p.ndim) + p.shape) for p in places]
    varying = [[d for d in range(rank) if p.shape[d] > 1] for p in aligned]
    taken = [d for v in varying for d in v]
    if any(len(v) > 1 for v in varying) or len(set(taken)) != len(taken):
        return None
    for j, p in enumerate(aligned):
        x = rows_of(at, x, p.reshape(-1), first + j)
    order = sorted(range(len(places)), key=lambda j: varying[j][0] if varying[j] else -1)
    lead, behind = list(range(first)), list(range(first + len(places), x.ndim))
    x = permuted(at, x, [*lead, *(first + j for j in order), *behind])
    shape = [next((p.shape[d] for p, v in zip(aligned, varying) if d in v), 1) for d in range(rank)]
    return reshaped(at, x, [*x.shape[:first], *shape, *x.shape[first + len(places):]])


def _by_one_index(at: At, x: Tensor, dims: list[int], indices: list[Value]) -> Tensor:
    """The dims made into one, whose places are counted through."""
    sizes = [x.shape[d] for d in dims]
    place: Value = None
    for i, size in zip(indices, sizes):
        i = i if isinstance(i, Tensor) else np.where(np.asarray(i) < 0, np.asarray(i) + size, i)
        place = i if place is None else _core.binary("add", _core.binary("mul", at.tensor(place), size), at.tensor(i)) \
            if isinstance(place, Tensor) or isinstance(i, Tensor) else place * size + i
    flat = reshaped(at, x, [*x.shape[:dims[0]], math.prod(sizes), *x.shape[dims[-1] + 1:]])
    return rows_of(at, flat, place, dims[0])


@conversion("gather.default")
def gather(at: At, self: Tensor, dim: int, index: Value, sparse_grad: bool = False) -> Tensor:
    """Dims that the index has fewer of are cut off."""
    dim %= self.ndim
    places = at.tensor(index)
    for d in range(self.ndim):
        if d != dim:
            self = sliced(at, self, d, 0, places.shape[d])
    return at.call("take_along_dim", self, places, dim=dim)


@conversion("take_along_dim.default")
def take_along_dim(at: At, self: Tensor, indices: Value, dim: int | None = None) -> Tensor:
    """The other dims are broadcast against each other."""
    places = at.tensor(indices)
    if dim is None:
        return gather(at, reshaped(at, self, [self.size]), 0, reshaped(at, places, [places.size]))
    dim %= self.ndim
    shape = np.broadcast_shapes(*((*s[:dim], 1, *s[dim + 1:]) for s in (self.shape, places.shape)))
    x, i = (broadcast(at, t, [*shape[:dim], t.shape[dim], *shape[dim + 1:]]) for t in (self, places))
    return gather(at, x, dim, i)


@conversion("index_add.default")
def index_add(at: At, self: Value, dim: int, index: Value, source: Tensor, alpha: float = 1) -> Tensor:
    return at.call("scatter_add", at.tensor(self, like=source), at.tensor(index), scaled(at, source, alpha),
                   dim=dim % source.ndim)


@conversion("scatter_add.default")
def scatter_add(at: At, self: Value, dim: int, index: Value, src: Tensor) -> Tensor:
    """Dims that the index has fewer of are cut off the source, and nothing is added to the rest of `self`."""
    dim %= src.ndim
    places = at.tensor(index)
    for d in range(src.ndim):
        src = sliced(at, src, d, 0, places.shape[d])
    added = at.call("add_along_dim", src, places, dim=dim, count=self.shape[dim])
    rest = [n - m for n, m in zip(self.shape, added.shape)]
    if any(rest):
        added = pad(at, added, [n for r in reversed(rest) for n in (0, r)])
    if not isinstance(self, Tensor) and not np.any(self):
        return added
    return at.call("add", at.tensor(self, like=src), added)


@conversion("one_hot.default")
def one_hot(at: At, self: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        raise at.refuse("needs num_classes: how many there are would depend on the data")
    return _core.cast(at.call("one_hot", self, depth=num_classes, dtype="f32"), "int64")
