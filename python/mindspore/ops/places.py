"""Functions that take elements by their places, or put them there."""

from __future__ import annotations

import math

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import at_places, movedim, numbers, padded
from .pointwise import floating, where
from .primitive import as_tensor, by_core
from .reductions import named_as_said, ordered, sliced, taken_along
from .shapes import filled


def _known(x, what: str) -> numpy.ndarray:
    """Elements, for what makes as many as there are. Raises: ValueError in programs, which know no such sizes."""
    x = as_tensor(x)
    if x.data_now().is_traced:
        raise ValueError(f"{what} makes as many elements as its data says, and a program's shapes are known before: call it "
                         "outside of gradient functions and graphs, or multiply by a mask")
    return x.asnumpy()


def counted_through(indices: Tensor, sizes) -> Tensor:
    """Of indices[.., j] into several dims those into the dims made into one."""
    factors = [math.prod(sizes[j + 1:]) for j in range(len(sizes))]
    weights = Tensor(numpy.asarray(factors, numpy.int32))
    whole = P.Cast()(indices, mstype.int32)
    wrapped = where(whole < 0, whole + Tensor(numpy.asarray(sizes, numpy.int32)), whole)
    return P.Cast()(P.ReduceSum()(wrapped * weights, -1), mstype.int32)


def gather_nd(input_x, indices):
    """Slices by indices[.., j] into the first dims."""
    x, places = as_tensor(input_x), as_tensor(indices)
    depth = places.shape[-1]
    flat = P.Reshape()(x, (math.prod(x.shape[:depth]), *x.shape[depth:]))
    return by_core("gather", flat, counted_through(places, x.shape[:depth]), dim=0)


def _from_start(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """x without what is beyond the places in other dims."""
    for d, size in enumerate(places.shape):
        if d != axis and size != x.shape[d]:
            x = sliced(x, d, 0, size)
    return x


def gather_elements(input, dim, index):
    """y[.., k, ..] = x[.., index[.., k, ..], ..]"""
    x, places = as_tensor(input), as_tensor(index)
    dim %= len(x.shape)
    return taken_along(_from_start(x, places, dim), places, dim)


def batched_gather(params, indices, axis: int, batch_dims: int):
    """Slices along a dim, of each item of the first dims by its own indices."""
    x, i = as_tensor(params), as_tensor(indices)
    axis %= len(x.shape)
    lead = math.prod(x.shape[:batch_dims])
    inner = i.shape[batch_dims:]
    y = P.Reshape()(movedim(x, axis, batch_dims), (lead * x.shape[axis], *[s for d, s in enumerate(x.shape) if d >= batch_dims and d != axis]))
    offsets = Tensor((numpy.arange(lead, dtype=numpy.int32) * x.shape[axis]).reshape(lead, *[1] * len(inner)))
    flat = P.Reshape()(P.Cast()(i, mstype.int32), (lead, *inner)) + offsets
    y = P.Reshape()(by_core("gather", y, flat, dim=0), (*x.shape[:batch_dims], *inner, *y.shape[1:]))
    moved = list(range(batch_dims, batch_dims + len(inner)))
    return movedim(y, moved, [axis + k for k in range(len(inner))]) if axis != batch_dims else y


# ---- what is put there: added, or instead of what is there ----

def _back(x: Tensor, added: Tensor) -> Tensor:
    """With as much around it as x has."""
    rest = [(0, n - m) for n, m in zip(x.shape, added.shape)]
    return padded(added, rest)


def _along(x: Tensor, updates, places: Tensor, axis: int) -> Tensor:
    """Sums of updates at places along a dim, of x's shape."""
    return _back(x, by_core("add_along_dim", updates, places, dim=axis, count=x.shape[axis]))


def _updates_of(src, places: Tensor, like: Tensor, axis: int) -> Tensor:
    if not isinstance(src, Tensor):
        return filled(like.dtype.name, places.shape, float(src))
    return _from_start(src, places, axis) if src.shape != places.shape else src


def scatter(input, axis, index, src):
    """x with src at the places along a dim; places are to differ."""
    x, places = as_tensor(input), as_tensor(index)
    axis %= len(x.shape)
    updates = _updates_of(src, places, x, axis)
    hit = _along(x, filled("float32", places.shape, 1), places, axis) > 0
    return where(hit, _along(x, updates, places, axis), x)


def scatter_add(input, dim, index, src):
    """x with src added at the places along a dim."""
    x, places = as_tensor(input), as_tensor(index)
    dim %= len(x.shape)
    return x + _along(x, _updates_of(src, places, x, dim), places, dim)


def tensor_scatter_elements(input_x, indices, updates, axis=0, reduction="none"):
    if reduction not in ("none", "add"):
        raise ValueError(f"reduction of tensor_scatter_elements is none or add, not {reduction!r}")
    return (scatter if reduction == "none" else scatter_add)(input_x, axis, indices, updates)


def _rows(indices, updates, shape) -> tuple[Tensor, Tensor, int]:
    """Places in the first dims made into one, the rows that go there, and how many rows there are."""
    places = as_tensor(indices)
    depth = places.shape[-1]
    flat = P.Reshape()(counted_through(places, shape[:depth]), (-1,))
    return flat, P.Reshape()(updates, (flat.shape[0], *shape[depth:])), math.prod(shape[:depth])


def scatter_nd(indices, updates, shape):
    """Zeros with updates added at indices[.., j] into the first dims."""
    shape = numbers(shape)
    flat, rows, count = _rows(indices, as_tensor(updates), shape)
    return P.Reshape()(by_core("unsorted_segment_sum", rows, flat, count=count, dim=0), shape)


def _of_rows(combine):
    """A function of (x, indices, updates) that changes rows of x, indices being into its first dims."""
    def function(input_x, indices, updates):
        x = as_tensor(input_x)
        flat, rows, count = _rows(indices, as_tensor(updates), x.shape)
        table = P.Reshape()(x, (count, *rows.shape[1:]))
        return P.Reshape()(combine(table, flat, rows), x.shape)

    return function


def _by_groups(op):
    """Rows one after the other, as operators of two take them."""
    def combine(table, flat, rows):
        for k in range(rows.shape[0]):
            place, row = sliced(flat, 0, k, k + 1), sliced(rows, 0, k, k + 1)
            old = by_core("gather", table, place, dim=0)
            table = by_core("scatter", table, place, op(old, row), dim=0)
        return table

    return combine


tensor_scatter_update = _of_rows(lambda table, flat, rows: by_core("scatter", table, flat, rows, dim=0))
tensor_scatter_add = _of_rows(lambda table, flat, rows: by_core("scatter_add", table, flat, rows, dim=0))
tensor_scatter_sub = _of_rows(lambda table, flat, rows: by_core("scatter_add", table, flat, -rows, dim=0))
tensor_scatter_mul = _of_rows(_by_groups(lambda a, b: a * b))
tensor_scatter_div = _of_rows(_by_groups(lambda a, b: a / b))
tensor_scatter_max = _of_rows(_by_groups(lambda a, b: P.Maximum()(b, a)))
tensor_scatter_min = _of_rows(_by_groups(lambda a, b: P.Minimum()(b, a)))


def index_add(x, indices, y, axis, use_lock=True, check_index_bound=True):
    """x with slices of y added at places of a dim."""
    return by_core("scatter_add", x, indices, y, dim=axis % len(x.shape))


def index_fill(x, axis, index, value):
    """x with the value in the slices at these places of a dim."""
    axis %= len(x.shape)
    ones = filled("float32", index.shape, 1)
    hit = by_core("unsorted_segment_sum", ones, index, count=x.shape[axis], dim=0) > 0
    hit = P.Reshape()(hit, (-1,) + (1,) * (len(x.shape) - 1 - axis))
    return where(P.BroadcastTo(tuple(x.shape))(hit), value, x)


def select_scatter(input, src, axis, index):
    """x with src as the slice at a place of a dim."""
    axis %= len(input.shape)
    index %= input.shape[axis]
    parts = [sliced(input, axis, a, b) for a, b in ((0, index), (index + 1, input.shape[axis])) if b > a]
    parts.insert(1 if index else 0, P.ExpandDims()(src, axis))
    return P.Concat(axis)(parts)


def masked_fill(input_x, mask, value):
    x = as_tensor(input_x)
    return where(P.BroadcastTo(tuple(numpy.broadcast_shapes(x.shape, mask.shape)))(mask), P.Cast()(as_tensor(value), x.dtype), x)


def masked_select(input, mask):
    """Elements where the mask is true, in their order."""
    x, chosen = as_tensor(input), _known(mask, "masked_select")
    shape = numpy.broadcast_shapes(x.shape, chosen.shape)
    places = numpy.flatnonzero(numpy.broadcast_to(chosen, shape))
    return at_places(P.Reshape()(P.BroadcastTo(tuple(shape))(x), (-1,)), places, 0)


def nonzero(input, *, as_tuple=False):
    places = numpy.argwhere(_known(input, "nonzero"))
    return tuple(Tensor(places[:, d]) for d in range(places.shape[1])) if as_tuple else Tensor(places)


def unique(input):
    """Each element once, in their order there, and which one each is."""
    x = as_tensor(input)
    values, first, inverse = numpy.unique(_known(x, "unique"), return_index=True, return_inverse=True)
    order = numpy.argsort(first)
    rank = numpy.empty_like(order)
    rank[order] = numpy.arange(len(order))
    return Tensor(values[order], x.dtype), Tensor(rank[inverse].reshape(x.shape).astype(numpy.int32))


def unique_sorted(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        raise ValueError("unique of a dim is not in this front end")
    x = as_tensor(input)
    values, inverse, counts = numpy.unique(_known(x, "unique"), return_inverse=True, return_counts=True)
    out = [Tensor(values, x.dtype)] + [Tensor(inverse.reshape(x.shape))] * return_inverse + [Tensor(counts)] * return_counts
    return out[0] if len(out) == 1 else tuple(out)


def searchsorted(sorted_sequence, values, *, out_int32=False, right=False, side=None, sorter=None):
    """How many of a growing line are below each value; right: below it or the same."""
    if sorter is not None or len(as_tensor(sorted_sequence).shape) != 1:
        raise ValueError("searchsorted in this front end takes a line, and no sorter")
    right = right or side == "right"
    line, v = as_tensor(sorted_sequence), as_tensor(values)
    beside = P.ExpandDims()(v, len(v.shape))
    is_below = line <= beside if right else line < beside
    return P.Cast()(P.ReduceSum()(P.Cast()(is_below, mstype.int64), -1), mstype.int32 if out_int32 else mstype.int64)


def bucketize(input, boundaries, *, right=False):
    return searchsorted(Tensor(numpy.asarray(boundaries, numpy.float32)), input, out_int32=True, right=right)


def histc(input, bins=100, min=0.0, max=0.0):
    """How many elements are in each of so many equal parts of the line from min to max."""
    x = floating(input)
    if min == max:
        min, max = float(P.ReduceMin()(x).asnumpy()), float(P.ReduceMax()(x).asnumpy())
    place = P.Floor()((x - float(min)) * (bins / (max - min)))
    place = where(x == float(max), float(bins - 1), place)
    hot = P.Cast()(P.Reshape()(place, (-1, 1)) == Tensor(numpy.arange(bins, dtype=numpy.float32)), x.dtype)
    return P.ReduceSum()(hot, 0)


def intopk(x1, x2, k):
    """Whether the element at the label is among the k largest of the row."""
    own = taken_along(x1, P.ExpandDims()(x2, 1), 1)
    return P.ReduceSum()(P.Cast()(x1 > own, mstype.int32), 1) < int(k)


def _segments(combine, start: float):
    def function(x, segment_ids, num_segments):
        x = as_tensor(x)
        flat = P.Reshape()(P.Cast()(segment_ids, mstype.int32), (-1,))
        depth = len(segment_ids.shape)
        rows = P.Reshape()(x, (flat.shape[0], *x.shape[depth:]))
        return combine(filled(x.dtype.name, (int(num_segments), *rows.shape[1:]), start), flat, rows)

    return function


def unsorted_segment_sum(input_x, segment_ids, num_segments):
    """Sums of the rows of each number."""
    x, depth = as_tensor(input_x), len(segment_ids.shape)
    flat = P.Reshape()(P.Cast()(segment_ids, mstype.int32), (-1,))
    rows = P.Reshape()(x, (flat.shape[0], *x.shape[depth:]))
    return by_core("unsorted_segment_sum", rows, flat, count=int(num_segments), dim=0)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    if max_norm is not None or scale_grad_by_freq:
        raise ValueError("embedding with max_norm or scale_grad_by_freq is not in this front end")
    return P.Gather()(weight, input, 0)


def quantile(input, q, axis=None, keepdims=False):
    """Between the two elements beside the place q (n - 1) in growing order."""
    x = floating(input)
    if axis is None:
        x, axis = P.Reshape()(x, (-1,)), 0
    values, _ = ordered(x, axis, True)
    place = float(q) * (x.shape[axis] - 1)
    low, share = int(place), place - int(place)
    parts = [sliced(values, axis, i, i + 1) for i in (low, min(low + 1, x.shape[axis] - 1))]
    y = parts[0] + (parts[1] - parts[0]) * share
    return y if keepdims else P.Squeeze(axis)(y)


@named_as_said
def nanmedian(input, axis=-1, keepdims=False):
    x = as_tensor(input)
    values, places = ordered(where(x != x, math.inf, x), axis, True)
    count = P.ReduceSum(True)(P.Cast()(x == x, mstype.int32), axis)
    middle = P.Cast()(P.Floor()((P.Cast()(count, mstype.float32) - 1) * 0.5), mstype.int32)
    out = [taken_along(values, middle, axis), P.Cast()(taken_along(places, middle, axis), mstype.int64)]
    return tuple(out) if keepdims else tuple(P.Squeeze(axis)(y) for y in out)


functions = {
    "gather_nd": gather_nd, "gather_elements": gather_elements, "gather_d": gather_elements,
    "index_select": lambda input, axis, index: P.Gather()(input, index, axis),
    "take": lambda input, indices, axis=None, mode="clip": P.Gather()(
        P.Reshape()(input, (-1,)) if axis is None else input, indices, axis or 0),
    "scatter": scatter, "tensor_scatter_elements": tensor_scatter_elements, "scatter_nd": scatter_nd,
    "tensor_scatter_update": tensor_scatter_update, "tensor_scatter_add": tensor_scatter_add,
    "tensor_scatter_sub": tensor_scatter_sub, "tensor_scatter_mul": tensor_scatter_mul, "tensor_scatter_div": tensor_scatter_div,
    "tensor_scatter_max": tensor_scatter_max, "tensor_scatter_min": tensor_scatter_min, "index_add": index_add,
    "index_fill": index_fill, "select_scatter": select_scatter, "masked_fill": masked_fill, "masked_select": masked_select,
    "nonzero": nonzero, "argwhere": lambda input: nonzero(input), "unique": unique, "searchsorted": searchsorted,
    "bucketize": bucketize, "histc": histc, "intopk": intopk, "unsorted_segment_sum": unsorted_segment_sum,
    "unsorted_segment_max": _segments(_by_groups(lambda a, b: P.Maximum()(b, a)), -3.4028235e38),
    "unsorted_segment_min": _segments(_by_groups(lambda a, b: P.Minimum()(b, a)), 3.4028235e38),
    "unsorted_segment_prod": _segments(_by_groups(lambda a, b: a * b), 1.0), "embedding": embedding, "quantile": quantile,
    "nanmedian": nanmedian}
