"""Collectives that a program calls itself, among ranks that are processes: at once, or at their place in a program that
each rank has for itself. Gradients are those of the sum of all ranks' losses, but for Broadcast, which hands them on."""

from __future__ import annotations

from typing import Callable

from shardwright import _core, collectives
from shardwright import ops as core_ops

from .. import _calls, context
from .._trace import current
from ..common.tensor import Tensor
from ..communication.management import members_of
from .primitive import Primitive, as_tensor


class ReduceOp:
    """How collectives reduce."""

    SUM, MAX, MIN = "sum", "max", "min"


def _check_op(who: str, op: str, known: tuple = ("sum", "max", "min")) -> None:
    if op not in known:
        raise ValueError(f"ops.{who} by '{op}' is not in this front end; there are {', '.join(known)}")


class _OfRanks(Primitive):
    """Subclasses say what becomes of a rank's array, of what shape, and of the gradient of that."""

    def __init__(self, group: str = "world"):
        self.group = group

    def run(self, x):
        x = as_tensor(x)
        if context.device_count() == 1:
            return x
        self._check_ranks()
        members = members_of(self.group)
        self.check(x.shape, len(members))
        if len(members) == 1:
            return x
        if not current():
            return Tensor.of(self.among(members, x.data_now()))
        forward, backward = self.both_ways(members)
        return Tensor.of(_core.call_back(forward, backward, x.array, self.result_shape(x.shape, len(members)),
                                         _calls.name_of(self.node_name)))

    def _check_ranks(self) -> None:
        if not context.is_rank_view():
            raise RuntimeError(f"ops.{self.name} is among {context.device_count()} processes, but one process stands "
                               "for all ranks: start the program by mpirun")
        if current() and context.is_auto():
            mode = context.get_auto_parallel_context("parallel_mode")
            raise RuntimeError(f"ops.{self.name} in a program of mode {mode}, which all ranks share: it has "
                               "collectives where its plan needs them. Take stand_alone or data_parallel")

    def check(self, shape: tuple, ranks: int) -> None:
        """Raises: ValueError if it cannot be done with such a tensor."""

    def among(self, members: list[int], array):
        raise NotImplementedError

    def both_ways(self, members: list[int]) -> tuple[Callable, Callable]:
        """What a program calls at its place, and in the backward with the result's gradient."""
        return lambda x: self.among(members, x), lambda g: self.gradient(members, g)

    def gradient(self, members: list[int], gradient):
        raise NotImplementedError

    def result_shape(self, shape: tuple, ranks: int) -> list[int]:
        return list(shape)


class AllReduce(_OfRanks):
    """The sum (largest, smallest) over ranks."""

    def __init__(self, op: str = ReduceOp.SUM, group: str = "world"):
        _check_op("AllReduce", op)
        super().__init__(group)
        self.op = op

    def among(self, members, array):
        return collectives.all_reduce(array, self.op, group=members)

    def both_ways(self, members):
        if self.op == "sum":
            return super().both_ways(members)
        kept = []  # where this rank has the largest, of the last forward

        def forward(x):
            y = self.among(members, x)
            kept[:] = [core_ops.cast(core_ops.equal(x, y), x.dtype)]
            return y

        return forward, lambda g: collectives.all_reduce(g, group=members) * kept[0]

    def gradient(self, members, gradient):
        return collectives.all_reduce(gradient, group=members)


def _own_part(members: list[int], array):
    """This rank's rows of what has rows of all."""
    rows = array.shape[0] // len(members)
    first = members.index(_core.own_rank()) * rows
    return array[first:first + rows]


class AllGather(_OfRanks):
    """What all ranks have, one behind the other."""

    def among(self, members, array):
        return collectives.all_gather(array, group=members)

    def gradient(self, members, gradient):
        return _own_part(members, collectives.all_reduce(gradient, group=members))

    def result_shape(self, shape, ranks):
        return [shape[0] * ranks, *shape[1:]]


class ReduceScatter(_OfRanks):
    """This rank's rows of the sum (largest, smallest) over ranks. Raises: ValueError of rows that cannot be cut."""

    def __init__(self, op: str = ReduceOp.SUM, group: str = "world"):
        _check_op("ReduceScatter", op)
        super().__init__(group)
        self.op = op

    def check(self, shape, ranks):
        if not shape or shape[0] % ranks:
            raise ValueError(f"ops.ReduceScatter cannot cut rows of shape {shape} into those of {ranks} ranks")

    def among(self, members, array):
        return _own_part(members, collectives.all_reduce(array, self.op, group=members))

    def gradient(self, members, gradient):
        if self.op != "sum":
            raise RuntimeError(f"the gradient of ops.ReduceScatter by '{self.op}' is not in this front end")
        return collectives.all_gather(gradient, group=members)

    def result_shape(self, shape, ranks):
        return [shape[0] // ranks, *shape[1:]]


class Broadcast(_OfRanks):
    """What the rank `root_rank` has, of each of several tensors."""

    def __init__(self, root_rank: int, group: str = "world"):
        super().__init__(group)
        self.root_rank = root_rank

    def run(self, tensors):
        return tuple(_OfRanks.run(self, x) for x in tensors)

    def among(self, members, array):
        return collectives.broadcast(array, self.root_rank, group=members)

    def gradient(self, members, gradient):
        return gradient


class AlltoAll(_OfRanks):
    """Cuts x along split_dim into a part for each rank; what a rank gets is put together along concat_dim."""

    def __init__(self, split_count: int, split_dim: int, concat_dim: int, group: str = "world"):
        super().__init__(group)
        self.split_count, self.split_dim, self.concat_dim = split_count, split_dim, concat_dim

    def check(self, shape, ranks):
        if self.split_count != ranks or shape[self.split_dim] % ranks:
            raise ValueError(f"ops.AlltoAll cuts dim {self.split_dim} of {shape} into {self.split_count} parts, but there "
                             f"are {ranks} ranks, one part for each")

    def among(self, members, array):
        return self._exchanged(members, array, self.split_dim, self.concat_dim)

    def gradient(self, members, gradient):
        return self._exchanged(members, gradient, self.concat_dim, self.split_dim)

    def _exchanged(self, members, array, split_dim: int, concat_dim: int):
        """Of everybody's tensor the parts that are this rank's."""
        everything = collectives.all_gather(core_ops.expand_dims(array, 0), group=members)
        size = array.shape[split_dim] // len(members)
        first = members.index(_core.own_rank()) * size
        own = (slice(None),) * split_dim + (slice(first, first + size),)
        return core_ops.concat([everything[i][own] for i in range(len(members))], concat_dim)

    def result_shape(self, shape, ranks):
        out = list(shape)
        out[self.split_dim] //= ranks
        out[self.concat_dim] *= ranks
        return out


__all__ = ["AllReduce", "AllGather", "AlltoAll", "Broadcast", "ReduceOp", "ReduceScatter"]
