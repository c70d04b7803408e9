"""Primitives that see, join, cut, reduce or make tensors."""

from __future__ import annotations

import math

from shardwright import _core

from .. import _calls
from ..common import dtype as mstype
from ..common.tensor import Tensor
from .primitive import Primitive, as_tensor


def dims_of(axis, rank: int) -> list[int]:
    """Of None or () all dims, of a number that one."""
    if axis is None or axis == ():
        return list(range(rank))
    return [a % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]


class Flatten(Primitive):
    """[batch, ...] -> [batch, rest]"""

    def run(self, x):
        return self.call("flatten", x, start=1)


class Reshape(Primitive):
    """The same elements in the same order; one dim may be -1."""

    def run(self, x, shape):
        shape = [int(s) for s in (shape.tolist() if isinstance(shape, Tensor) else shape)]
        if -1 in shape:
            known = -math.prod(shape)
            shape[shape.index(-1)] = x.size // known if known else 0
        return self.call("reshape", x, shape=shape)


class Transpose(Primitive):
    """Dim d of the result is dim perm[d] of x."""

    def run(self, x, perm):
        return self.call("transpose", x, dims=[d % len(x.shape) for d in perm])


class Squeeze(Primitive):
    """Without dims of size 1: those given, or all."""

    def __init__(self, axis=()):
        self.axis = axis

    def run(self, x):
        if self.axis == ():
            dims = [d for d, size in enumerate(x.shape) if size == 1]
        else:
            dims = dims_of(self.axis, len(x.shape))
        return self.call("squeeze", x, dims=dims) if dims else x


class ExpandDims(Primitive):
    """With a dim of size 1, so that it is dim `axis`."""

    def run(self, x, axis):
        return self.call("expand_dims", x, dims=[int(axis) % (len(x.shape) + 1)])


class Concat(Primitive):
    """One behind the other along a dim."""

    def __init__(self, axis: int = 0):
        self.axis = axis

    def run(self, tensors):
        return self.call("concat", *tensors, dim=self.axis % len(tensors[0].shape))


class Stack(Primitive):
    """Side by side along a new dim."""

    def __init__(self, axis: int = 0):
        self.axis = axis

    def run(self, tensors):
        return Concat(self.axis)([ExpandDims()(t, self.axis) for t in tensors])


class Split(Primitive):
    """Equal parts along a dim."""

    def __init__(self, axis: int = 0, output_num: int = 1):
        self.axis, self.output_num = axis, output_num

    def run(self, x):
        size = x.shape[self.axis]
        if size % self.output_num:
            raise ValueError(f"dim {self.axis} of {x.shape} cannot be cut into {self.output_num} equal parts")
        parts = self.call("split", x, dim=self.axis % len(x.shape), sizes=[size // self.output_num] * self.output_num)
        return parts if isinstance(parts, tuple) else (parts,)


class StridedSlice(Primitive):
    """Every strides[d]-th element of dim d from begin[d] up to end[d]."""

    def run(self, x, begin, end, strides):
        return self.call("strided_slice", x, dims=list(range(len(begin))), starts=list(begin), stops=list(end),
                         steps=list(strides))


class Slice(Primitive):
    """size[d] elements of dim d from begin[d] on."""

    def run(self, x, begin, size):
        return StridedSlice()(x, begin, [b + s for b, s in zip(begin, size)], [1] * len(begin))


class Tile(Primitive):
    """Dim d is repeated multiples[d] times."""

    def run(self, x, multiples):
        repeats = list(multiples)
        if len(repeats) < len(x.shape):
            raise ValueError(f"multiples {repeats} of a Tile has a number for each dim of {x.shape}, and more for new ones")
        if len(repeats) > len(x.shape):
            x = Reshape()(x, (*[1] * (len(repeats) - len(x.shape)), *x.shape))
        return self.call("tile", x, repeats=repeats)


class BroadcastTo(Primitive):
    """Repeated along new dims and dims of size 1."""

    def __init__(self, shape):
        self.shape = list(shape)

    def run(self, x):
        own = [1] * (len(self.shape) - len(x.shape)) + list(x.shape)
        return self.call("broadcast", x, shape=[o if s == -1 else s for s, o in zip(self.shape, own)])


class Gather(Primitive):
    """Slices of `params` along a dim, by index."""

    def __init__(self, batch_dims: int = 0):
        if batch_dims:
            raise ValueError(f"Gather with batch_dims={batch_dims} is not in this front end; there is 0")

    def run(self, params, indices, axis=0):
        return self.call("gather", params, indices, dim=int(axis) % len(params.shape))


GatherV2 = Gather  # an older name


class OneHot(Primitive):
    """A new dim, the last one or `axis`, `on_value` where it is the index and `off_value` elsewhere. Its strategy is that of the
    result. Whole numbers as values make it int64."""

    def __init__(self, axis: int = -1):
        self.axis = axis

    def strategies(self) -> dict:
        said = super().strategies()
        of_result = (said.get("in_") or (None,))[0]
        return {"in_": (of_result[:-1],)} if isinstance(of_result, tuple) else said

    def _lying(self, hot: Tensor) -> Tensor:
        """As the strategy says of the new dim, too."""
        of_result = (super().strategies().get("in_") or (None,))[0]
        if not isinstance(of_result, tuple):
            return hot
        return Tensor.of(_core.reshard(hot.array, of_result, _calls.name_of(self.node_name + ".out")))

    def run(self, indices, depth, on_value=1.0, off_value=0.0):
        dtype = on_value.dtype.name if isinstance(on_value, Tensor) else "int64" if isinstance(on_value, int) else "float32"
        on, off = float(on_value), float(off_value)
        made = "float32" if "int" in dtype else dtype
        hot = self._lying(self.call("one_hot", indices, depth=int(depth), dtype=_core.short_name(made)))
        hot = hot if (on, off) == (1.0, 0.0) else hot * (on - off) + off
        last = len(hot.shape) - 1
        if self.axis not in (-1, last):
            order = list(range(last))
            order.insert(self.axis, last)
            hot = Transpose()(hot, order)
        return Cast()(hot, dtype)


class Cast(Primitive):
    """The same numbers as another type."""

    def run(self, x, dtype):
        name = mstype.type_of(dtype).name
        x = as_tensor(x)
        return x if x.dtype.name == name else self.call("cast", x, to=_core.short_name(name))


class Shape(Primitive):
    """A tuple of Python's numbers."""

    def run(self, x):
        return tuple(x.shape)


class DType(Primitive):
    def run(self, x):
        return x.dtype


class Rank(Primitive):
    def run(self, x):
        return len(x.shape)


class Size(Primitive):
    def run(self, x):
        return x.size


def filled(dtype: str, shape, value: float) -> Tensor:
    """One value everywhere."""
    return Tensor.of(_calls.call("fill", [], shape=list(shape), value=float(value), dtype=_core.short_name(dtype)))


class Fill(Primitive):
    """One value everywhere."""

    def run(self, dtype, shape, value):
        return filled(mstype.type_of(dtype).name, shape, value)


class ZerosLike(Primitive):
    def run(self, x):
        return filled(x.dtype.name, x.shape, 0)


class OnesLike(Primitive):
    def run(self, x):
        return filled(x.dtype.name, x.shape, 1)


class Zeros(Primitive):
    def run(self, shape, dtype):
        return filled(mstype.type_of(dtype).name, (shape,) if isinstance(shape, int) else shape, 0)


class Ones(Primitive):
    def run(self, shape, dtype):
        return filled(mstype.type_of(dtype).name, (shape,) if isinstance(shape, int) else shape, 1)


class _Reduce(Primitive):
    op = ""

    def __init__(self, keep_dims: bool = False):
        self.keep_dims = keep_dims

    def run(self, x, axis=()):
        return self.call(self.op, x, dims=dims_of(axis, len(x.shape)), keep=self.keep_dims)


class ReduceSum(_Reduce):
    """The sum over dims; over all without them."""

    op = "reduce_sum"


class ReduceMean(_Reduce):
    """The mean over dims."""

    op = "reduce_mean"


class ReduceMax(_Reduce):
    """The largest over dims."""

    op = "reduce_max"


class ReduceMin(_Reduce):
    """The smallest over dims."""

    def run(self, x, axis=()):
        return -Tensor.of(_calls.call("reduce_max", [(-x).array], name=self.node_name, **self.strategies(),
                                      dims=dims_of(axis, len(x.shape)), keep=self.keep_dims))


class Argmax(Primitive):
    """Where x is largest along a dim, i32."""

    def __init__(self, axis: int = -1, output_type=mstype.int32):
        self.axis, self.output_type = axis, output_type

    def run(self, x):
        return Cast()(self.call("argmax", x, dim=self.axis), self.output_type)


__all__ = ["Flatten", "Reshape", "Transpose", "Squeeze", "ExpandDims", "Concat", "Stack", "Split", "StridedSlice",
           "Slice", "Tile", "BroadcastTo", "Gather", "GatherV2", "OneHot", "Cast", "Shape",
           "DType", "Rank", "Size", "Fill", "ZerosLike",
           "OnesLike", "Zeros", "Ones", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "Argmax"]
