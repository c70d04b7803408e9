"""What processes that mpirun has started say to each other, at once, outside of any program. All of them call it, or
all of a group: processes by their ranks, ascending."""

from __future__ import annotations

from typing import Callable, Sequence

from . import _core, ops
from ._core import Parameter, Tensor
from .ops import ArrayLike

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast", "gather"]

_programs: dict[tuple, _core.Program] = {}


def _members(group: Sequence[int] | None) -> tuple[int, ...]:
    """Raises: ValueError if this process is none of them."""
    members = tuple(range(_core.rank_count())) if group is None else tuple(group)
    if list(members) != sorted(set(members)) or members[-1:] >= (_core.rank_count(),):
        raise ValueError(f"a group is ascending ranks below {_core.rank_count()}, not {list(members)}")
    if _core.own_rank() not in members:
        raise ValueError(f"rank {_core.own_rank()} is not in the group {list(members)}")
    return members


def _together(kind: str, x: ArrayLike, group: Sequence[int] | None, make: Callable[[Tensor], Tensor]) -> Tensor:
    """`make` of the stacked tensors of all members, on all of them."""
    x, members = _core.array_of(x), _members(group)
    count = len(members)
    if count == 1:
        return make(ops.expand_dims(x, 0))
    key = kind, members, x.dtype, x.shape
    if key not in _programs:
        with _core.Trace() as trace:
            result = make(trace.input("x", [count, *x.shape], x.dtype))
        options = {"devices": str(count), "parallel": "data_parallel", "dataset_strategy": "data_parallel"}
        _programs[key] = _core.Program(trace, [result], options, ranks=members)
    return _programs[key].run_local([ops.expand_dims(x, 0)])[0]


_reductions = {"sum": lambda x: ops.sum(x, 0), "max": lambda x: ops.max(x, 0), "min": lambda x: -ops.max(-x, 0),
               "mean": lambda x: ops.mean(x, 0)}


def all_reduce(x: ArrayLike, op: str = "sum", group: Sequence[int] | None = None) -> Tensor:
    """The sum (max, min, mean) of all processes' x, on each. Shapes: the same on all."""
    if op not in _reductions:
        raise ValueError(f"all_reduce '{op}' is unknown; there are {', '.join(_reductions)}")
    return _together(op, x, group, _reductions[op])


def all_gather(x: ArrayLike, group: Sequence[int] | None = None) -> Tensor:
    """All processes' x one behind the other along dim 0, on each."""
    return _together("gather", x, group, lambda all_x: ops.reshape(all_x, [-1, *all_x.shape[2:]]))


def broadcast(x: ArrayLike, root: int = 0, group: Sequence[int] | None = None) -> Tensor:
    """x of the process `root`, on all."""
    members = _members(group)
    if root not in members:
        raise ValueError(f"root {root} is not in the group {list(members)}")
    return _together(f"broadcast {root}", x, group, lambda all_x: all_x[members.index(root)])


def barrier(group: Sequence[int] | None = None) -> None:
    """Waits for all."""
    all_reduce(Tensor(0.0), group=group)


def gather(parameter: Parameter) -> Tensor:
    """The newest value of a parameter, of which processes may have parts, on all of them."""
    return parameter.gathered()
