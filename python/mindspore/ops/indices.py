"""What `x[...]` means: slices, places that are tensors, masks."""

from __future__ import annotations

import math

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import movedim
from .places import counted_through, masked_select, nonzero
from .primitive import by_core


def _is_place(index) -> bool:
    return isinstance(index, (list, numpy.ndarray)) or (isinstance(index, Tensor) and len(index.shape) > 0)


def _placed(index) -> Tensor:
    return index if isinstance(index, Tensor) else Tensor(numpy.asarray(index))


def _scalar(index):
    return int(index) if isinstance(index, Tensor) and not index.shape and not index.array.is_traced else index


def item(x: Tensor, index) -> Tensor:
    """Of numbers, slices, None and `...` the part; tensors beside them are broadcast together."""
    said = index if isinstance(index, tuple) else (index,)
    if isinstance(index, list) and any(isinstance(i, slice) or i is None or i is Ellipsis for i in index):
        said = tuple(index)
    if not any(_is_place(i) or (isinstance(i, Tensor) and i.array.is_traced) for i in said):
        return Tensor.of(x.array[tuple(_scalar(i) for i in said)])
    said = _whole(said, len(x.shape))
    if any(_is_mask(i) for i in said):
        said = _without_masks(x, said)
        if isinstance(said, Tensor):
            return said
    return _by_places(x, said)


def _is_mask(index) -> bool:
    return _is_place(index) and str(_placed(index).dtype) == "Bool"


def _whole(said: tuple, rank: int) -> list:
    """Without `...`, an index for each dim, None beside them."""
    count = sum(_placed(i).ndim if _is_mask(i) else i is not None and i is not Ellipsis for i in said)
    out = []
    for i in said:
        out += [slice(None)] * (rank - count) if i is Ellipsis else [i]
    if not any(i is Ellipsis for i in said):
        out += [slice(None)] * (rank - count)
    return out


def _without_masks(x: Tensor, said: list):
    """Masks as places of what is true; one mask of all dims chooses elements."""
    if len(said) == 1 and _placed(said[0]).ndim == len(x.shape):
        return masked_select(x, _placed(said[0]))
    out = []
    for i in said:
        if _is_mask(i):
            places = nonzero(_placed(i))
            out += [places[:, d] for d in range(places.shape[1])]
        else:
            out.append(i)
    return out


def _by_places(x: Tensor, said: list) -> Tensor:
    """First what slices say, then places by one index into the dims that they are of, side by side."""
    part = tuple(slice(None) if _is_place(i) or isinstance(i, Tensor) else _scalar(i) for i in said)
    y = Tensor.of(x.array[part])
    dims, places, d = [], [], 0
    for i in said:
        if _is_place(i) or isinstance(i, Tensor):
            dims.append(d)
            places.append(_placed(i))
        d += not isinstance(i, int)
    if len(dims) == 1:
        return by_core("gather", y, _from_start(places[0], y.shape[dims[0]]), dim=dims[0])
    shape = numpy.broadcast_shapes(*(p.shape for p in places))
    index = P.Stack(-1)([P.BroadcastTo(tuple(shape))(P.Cast()(p, mstype.int32)) for p in places])
    is_together = dims == list(range(dims[0], dims[0] + len(dims)))
    first = dims[0] if is_together else 0
    y = movedim(y, dims, list(range(first, first + len(dims))))
    sizes = y.shape[first:first + len(dims)]
    flat = P.Reshape()(y, (*y.shape[:first], math.prod(sizes), *y.shape[first + len(dims):]))
    return by_core("gather", flat, counted_through(index, sizes), dim=first)


def _from_start(places: Tensor, size: int) -> Tensor:
    """Counted from the start where they are below 0 and known."""
    if places.array.is_traced:
        return places
    values = places.asnumpy()
    return Tensor(numpy.where(values < 0, values + size, values)) if (values < 0).any() else places
