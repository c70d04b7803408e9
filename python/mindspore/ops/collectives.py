"""Collectives that a program calls itself, among ranks that are processes."""

from __future__ import annotations

from shardwright import collectives

from .. import context
from .._trace import current
from ..common.tensor import Tensor
from .primitive import Primitive


class ReduceOp:
    """How collectives reduce."""

    SUM, MAX, MIN = "sum", "max", "min"


class _OfRanks(Primitive):
    """Of one rank its own tensor. Raises: RuntimeError in a program, and where one process stands for several ranks."""

    def __init__(self, group: str = "world"):
        if group not in ("world", "hccl_world_group", "nccl_world_group"):
            raise ValueError(f"ops.{self.name} in group '{group}' is not in this front end; there is that of all ranks")

    def run(self, x):
        if context.device_count() == 1:
            return x
        if not context.is_rank_view():
            raise RuntimeError(f"ops.{self.name} is among {context.device_count()} processes, but one process stands "
                               "for all ranks: start the program by mpirun")
        if current():
            raise RuntimeError(f"ops.{self.name} in a program is not in this front end: call it outside of jitted "
                               "functions and, in graph mode, of cells")
        return Tensor.of(self.among_ranks(x.data_now()))

    def among_ranks(self, array):
        raise NotImplementedError


class AllReduce(_OfRanks):
    """The sum (largest, smallest) over ranks."""

    def __init__(self, op: str = ReduceOp.SUM, group: str = "world"):
        super().__init__(group)
        self.op = op

    def among_ranks(self, array):
        return collectives.all_reduce(array, self.op)


class AllGather(_OfRanks):
    """What all ranks have, one behind the other."""

    def among_ranks(self, array):
        return collectives.all_gather(array)


class Broadcast(_OfRanks):
    """What the rank `root_rank` has."""

    def __init__(self, root_rank: int, group: str = "world"):
        super().__init__(group)
        self.root_rank = root_rank

    def run(self, tensors):
        return tuple(_OfRanks.run(self, x) for x in tensors)

    def among_ranks(self, array):
        return collectives.broadcast(array, self.root_rank)


__all__ = ["AllReduce", "AllGather", "Broadcast", "ReduceOp"]
