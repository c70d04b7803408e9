"""Functions that move, cut, join, repeat or make elements."""

from __future__ import annotations

import builtins

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .pointwise import filled_like, where
from .primitive import as_tensor, by_core
from .reductions import flipped, named_as_said, sliced
from .shapes import filled


def dims_said(axes, rank: int) -> list[int]:
    return [a % rank for a in ((axes,) if isinstance(axes, int) else axes)]


def numbers(values) -> list[int]:
    """Of a tensor or a sequence, or one."""
    if isinstance(values, Tensor):
        values = values.tolist()
    return [int(values)] if isinstance(values, (int, float)) else [int(v) for v in values]


def swapaxes(input, axis0, axis1):
    order = list(range(len(input.shape)))
    order[axis0], order[axis1] = order[axis1], order[axis0]
    return P.Transpose()(input, order)


def movedim(x, source, destination):
    """Dims to other places, the rest in their order."""
    rank = len(x.shape)
    sources, places = dims_said(source, rank), dims_said(destination, rank)
    rest = iter(d for d in range(rank) if d not in sources)
    order = [sources[places.index(d)] if d in places else next(rest) for d in range(rank)]
    return P.Transpose()(x, order)


def flip(input, dims):
    """The other way round along dims."""
    return flipped(as_tensor(input), dims)


def rot90(input, k, dims):
    """Turned by k quarters in the plane of two dims."""
    first, second = dims_said(dims, len(input.shape))
    if k % 4 == 0:
        return input
    if k % 4 == 2:
        return flipped(input, (first, second))
    if k % 4 == 1:
        return swapaxes(flipped(input, second), first, second)
    return flipped(swapaxes(input, first, second), second)


def roll(input, shifts, dims=None):
    """Moved along dims; what leaves at the end comes in at the start."""
    x = as_tensor(input)
    if dims is None:
        return P.Reshape()(by_core("roll", P.Reshape()(x, (-1,)), dims=[0], shifts=numbers(shifts)), x.shape)
    return by_core("roll", x, dims=dims_said(dims, len(x.shape)), shifts=numbers(shifts))


def chunk(input, chunks, axis=0):
    """At most so many parts, all as large but the last."""
    size = -(-input.shape[axis] // chunks)
    return cut(input, [builtins.min(size, input.shape[axis] - s) for s in range(0, input.shape[axis], size)], axis)


def cut(x, sizes, axis: int) -> tuple[Tensor, ...]:
    """Parts of these sizes."""
    if len(sizes) == 1:
        return (x,)
    return by_core("split", x, dim=axis % len(x.shape), sizes=list(sizes))


def tensor_split(input, indices_or_sections, axis=0):
    """Parts that begin at places, or so many of nearly one size."""
    size, said = input.shape[axis], indices_or_sections
    if isinstance(said, int):
        small, more = divmod(size, said)
        return cut(input, [small + 1] * more + [small] * (said - more), axis)
    ends = [builtins.min(i, size) for i in said] + [size]
    sizes = [end - start for start, end in zip([0, *ends], ends)]
    if builtins.min(sizes) < 1:
        raise ValueError(f"tensor_split at {list(said)} of a dim of {size} would make an empty part")
    return cut(input, sizes, axis)


def unstack(input_x, axis=0):
    """Slices along a dim, without it."""
    return tuple(P.Squeeze(axis)(part) for part in cut(input_x, [1] * input_x.shape[axis], axis))


def narrow(input, axis, start, length):
    return sliced(as_tensor(input), axis, int(start), int(start) + int(length))


def select_at(input, dim, index):
    """The slice at a place of a dim, without it."""
    return P.Squeeze(dim)(narrow(input, dim, index % input.shape[dim], 1))


def strided_slice(input_x, begin, end, strides, **masks):
    if builtins.any(masks.values()):
        raise ValueError("strided_slice with masks is not in this front end: say begin, end and strides")
    starts = [i + n if i < 0 else i for i, n in zip(numbers(begin), input_x.shape)]
    stops = [i + n if i < 0 else builtins.min(i, n) for i, n in zip(numbers(end), input_x.shape)]
    return P.StridedSlice()(input_x, starts, stops, numbers(strides))


def at_places(x, places, axis: int) -> Tensor:
    """Slices along a dim by places that are known."""
    return by_core("gather", x, Tensor(numpy.asarray(places, numpy.int32)), dim=axis % len(x.shape))


@named_as_said
def repeat_interleave(input, repeats, axis=None):
    """Each slice so often, one behind the other."""
    x = as_tensor(input)
    if axis is None:
        x, axis = P.Reshape()(x, (-1,)), 0
    counts = numbers(repeats)
    places = numpy.repeat(numpy.arange(x.shape[axis]), counts[0] if len(counts) == 1 else counts)
    return at_places(x, places, axis)


def _triangle(keeps_lower: bool):
    def function(input, diagonal=0):
        x = as_tensor(input)
        rows, columns = x.shape[-2:]
        lower = numpy.tri(rows, columns, diagonal if keeps_lower else diagonal - 1, dtype=bool)
        return where(Tensor(numpy.broadcast_to(lower if keeps_lower else ~lower, x.shape).copy()), x, filled_like(x, 0))

    return function


tril, triu = _triangle(True), _triangle(False)


def _triangle_places(name: str):
    def function(row, col, offset=0, *, dtype=mstype.int64):
        return Tensor(numpy.stack(getattr(numpy, name)(row, offset, col)), dtype)

    return function


def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonals of matrices, as the last dim."""
    rank = len(input.shape)
    first, second = dims_said((dim1, dim2), rank)
    x = P.Transpose()(input, [d for d in range(rank) if d not in (first, second)] + [first, second])
    rows, columns = x.shape[-2:]
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    return at_places(P.Reshape()(x, (*x.shape[:-2], rows * columns)), places, -1)


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """The last dim as diagonals of matrices."""
    x = as_tensor(input)
    size = x.shape[-1] + builtins.abs(offset)
    hot = numpy.eye(size, size, offset, dtype=numpy.float32)
    hot = hot[:x.shape[-1]] if offset >= 0 else hot[-offset:]
    rows = Tensor(hot, x.dtype) * P.ExpandDims()(x, len(x.shape))
    if offset < 0:
        rows = by_core("pad", rows, dims=[len(rows.shape) - 2], before=[-offset], after=[0], gaps=[0], value=0.0)
    elif offset > 0:
        rows = by_core("pad", rows, dims=[len(rows.shape) - 2], before=[0], after=[offset], gaps=[0], value=0.0)
    rank = len(rows.shape)
    return movedim(rows, (rank - 2, rank - 1), (dim1 % rank, dim2 % rank))


def diag(input):
    """Zeros but at [i.., i..], where the element [i..] is."""
    shape = tuple(input.shape)
    return P.Reshape()(diag_embed(P.Reshape()(input, (-1,))), shape + shape)


def trace(input):
    return P.ReduceSum()(diagonal(input))


def meshgrid(*inputs, indexing="xy"):
    """Each line repeated along the dims of the others."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing of meshgrid is xy or ij, not {indexing!r}")
    sizes = [x.shape[0] for x in inputs]
    rank, out = len(inputs), []
    for d, x in enumerate(inputs):
        own = [1] * rank
        own[d] = sizes[d]
        out.append(P.BroadcastTo(tuple(sizes))(P.Reshape()(x, own)))
    return tuple(swapaxes(x, 0, 1) for x in out) if indexing == "xy" and rank > 1 else tuple(out)


def broadcast_together(*tensors):
    shape = numpy.broadcast_shapes(*(t.shape for t in tensors))
    return [P.BroadcastTo(tuple(shape))(t) for t in tensors]


def _at_least(rank: int):
    def function(inputs):
        if isinstance(inputs, (list, tuple)):
            return tuple(function(x) for x in inputs)
        x = as_tensor(inputs)
        shape = list(x.shape)
        if rank == 3 and len(shape) == 1:
            shape = [1, shape[0], 1]
        elif rank == 3 and len(shape) == 2:
            shape = [*shape, 1]
        else:
            shape = [1] * (rank - len(shape)) + shape
        return P.Reshape()(x, shape)

    return function


atleast_1d, atleast_2d, atleast_3d = (_at_least(rank) for rank in (1, 2, 3))


def hstack(tensors):
    parts = [atleast_1d(t) for t in tensors]
    return P.Concat(0 if len(parts[0].shape) == 1 else 1)(parts)


def column_stack(tensors):
    return P.Concat(1)([P.Reshape()(t, (-1, 1)) if len(t.shape) < 2 else t for t in tensors])


def block_diag(*inputs):
    """Matrices one behind the other, with zeros beside them."""
    parts = [atleast_2d(x) for x in inputs]
    columns = sum(p.shape[1] for p in parts)
    rows, start = [], 0
    for p in parts:
        rows.append(by_core("pad", p, dims=[1], before=[start], after=[columns - start - p.shape[1]], gaps=[0], value=0.0))
        start += p.shape[1]
    return P.Concat(0)(rows)


def cartesian_prod(*inputs):
    grids = meshgrid(*inputs, indexing="ij")
    return P.Stack(1)([P.Reshape()(g, (-1,)) for g in grids])


def vander(x, N=None):  # noqa: N803, as there
    """Columns are powers, the highest first."""
    count = x.shape[0] if N is None else N
    return P.Stack(1)([P.Pow()(x, float(p)) for p in range(count - 1, -1, -1)])


# ---- around the edges ----

def _reflected(size: int, before: int, after: int, mode: str) -> list[int]:
    """Places of what stands there, of a line of this size."""
    if mode == "replicate":
        return [builtins.min(builtins.max(i, 0), size - 1) for i in range(-before, size + after)]
    if mode == "circular":
        return [i % size for i in range(-before, size + after)]
    shift = 1 if mode == "reflect" else 0  # symmetric: the edge is there twice
    if builtins.max(before, after) > size - shift:
        raise ValueError(f"{mode} padding of {before} and {after} around a dim of {size} elements: there are too few")
    period = 2 * (size - shift)
    places = [i % period if shift else i % (2 * size) for i in range(-before, size + after)]
    return [i if i < size else period - i - (0 if shift else 1) for i in places]


def padded(x, pairs, mode: str = "constant", value: float = 0.0) -> Tensor:
    """pairs: for each dim how many before and behind it; below 0 so many fewer."""
    x = as_tensor(x)
    for d, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            x = sliced(x, d, builtins.max(-before, 0), x.shape[d] - builtins.max(-after, 0))
    pairs = [(builtins.max(b, 0), builtins.max(a, 0)) for b, a in pairs]
    dims = [d for d, pair in enumerate(pairs) if pair != (0, 0)]
    if not dims:
        return x
    if mode == "constant":
        return by_core("pad", x, dims=dims, before=[pairs[d][0] for d in dims], after=[pairs[d][1] for d in dims],
                       gaps=[0] * len(dims), value=float(value))
    if mode not in ("reflect", "replicate", "circular", "symmetric"):
        raise ValueError(f"mode of a padding is constant, reflect, symmetric, replicate or circular, not {mode!r}")
    for d in dims:
        x = at_places(x, _reflected(x.shape[d], *pairs[d], mode), d)
    return x


def pad(input_x, padding, mode="constant", value=None):
    """Elements around it: before and behind the last dim, then the one before it, and so on."""
    sides = numbers(padding)
    if len(sides) % 2:
        raise ValueError(f"a padding has two numbers for each dim, not {sides}")
    pairs = [(sides[i], sides[i + 1]) for i in range(0, len(sides), 2)]
    rest = len(input_x.shape) - len(pairs)
    return padded(input_x, [(0, 0)] * rest + pairs[::-1], mode, 0.0 if value is None else value)


def reverse_sequence(x, seq_lengths, seq_dim, batch_dim=0):
    """The first so many along a dim the other way round, of each item of the batch its own number."""
    lengths = numbers(seq_lengths)
    size = x.shape[seq_dim]
    places = numpy.array([[n - 1 - i if i < n else i for i in range(size)] for n in lengths], numpy.int32)
    shape = [1] * len(x.shape)
    shape[batch_dim], shape[seq_dim] = len(lengths), size
    places = places if batch_dim < seq_dim else places.T
    full = numpy.broadcast_to(places.reshape(shape), x.shape).copy()
    return by_core("take_along_dim", x, Tensor(full), dim=seq_dim % len(x.shape))


def sequence_mask(lengths, maxlen=None):
    lengths = as_tensor(lengths)
    count = int(lengths.asnumpy().max()) if maxlen is None else maxlen
    return P.Less()(Tensor(numpy.arange(count, dtype=numpy.int32)), P.ExpandDims()(P.Cast()(lengths, mstype.int32), -1))


def permute(input, *axis):
    return P.Transpose()(input, axis[0] if len(axis) == 1 and not isinstance(axis[0], int) else axis)


functions = {
    "swapaxes": swapaxes, "swapdims": swapaxes, "movedim": movedim, "moveaxis": movedim, "permute": permute, "flip": flip,
    "fliplr": lambda input: flip(input, 1), "flipud": lambda input: flip(input, 0), "rot90": rot90, "roll": roll,
    "chunk": chunk, "tensor_split": tensor_split, "unstack": unstack, "unbind": lambda input, dim=0: unstack(input, dim),
    "hsplit": lambda input, indices_or_sections: tensor_split(input, indices_or_sections, 0 if len(input.shape) == 1 else 1),
    "vsplit": lambda input, indices_or_sections: tensor_split(input, indices_or_sections, 0),
    "dsplit": lambda input, indices_or_sections: tensor_split(input, indices_or_sections, 2),
    "narrow": narrow, "slice": lambda input_x, begin, size: P.Slice()(input_x, numbers(begin), numbers(size)),
    "strided_slice": strided_slice, "repeat_interleave": repeat_interleave,
    "repeat_elements": lambda x, rep, axis=0: repeat_interleave(x, rep, axis), "tril": tril, "triu": triu,
    "tril_indices": _triangle_places("tril_indices"), "triu_indices": _triangle_places("triu_indices"), "diagonal": diagonal,
    "diag_embed": diag_embed, "diag": diag, "trace": trace, "meshgrid": meshgrid, "atleast_1d": atleast_1d,
    "atleast_2d": atleast_2d, "atleast_3d": atleast_3d, "hstack": hstack, "column_stack": column_stack,
    "vstack": lambda inputs: P.Concat(0)([atleast_2d(x) for x in inputs]),
    "row_stack": lambda tensors: P.Concat(0)([atleast_2d(x) for x in tensors]),
    "dstack": lambda tensors: P.Concat(2)([atleast_3d(x) for x in tensors]), "block_diag": block_diag,
    "cartesian_prod": cartesian_prod, "vander": vander, "ravel": lambda input: P.Reshape()(input, (-1,)),
    "pad": pad, "reverse_sequence": reverse_sequence, "sequence_mask": sequence_mask, "numel": lambda input: input.size, "size": lambda input_x: input_x.size,
    "t": lambda input: input if len(input.shape) < 2 else swapaxes(input, 0, 1),
    "expand": lambda input_x, size: P.BroadcastTo(tuple(numbers(size)))(input_x),
    "new_zeros": lambda input, size, *, dtype=None: filled((dtype or input.dtype).name, numbers(size), 0),
    "new_ones": lambda input, size, *, dtype=None: filled((dtype or input.dtype).name, numbers(size), 1),
    "reverse": lambda x, axis: flip(x, axis), "fills": lambda x, value: filled(x.dtype.name, x.shape, value),
    "is_floating_point": lambda input: "Float" in str(input.dtype), "mirror_pad": lambda input_x, paddings, mode: padded(
        input_x, [tuple(p) for p in as_tensor(paddings).tolist()], mode.lower()),
    "type_as": lambda input, other: P.Cast()(input, other.dtype), "from_numpy": lambda array: Tensor(array),
    "tuple_to_array": lambda input_x: Tensor(numpy.asarray(input_x))}
