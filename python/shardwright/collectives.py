"""What processes that mpirun has started say to each other, at once, outside of any program. All of them call it."""

from __future__ import annotations

from . import _core, ops
from ._core import Tensor

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast"]

_programs: dict[tuple, object] = {}


def _together(kind: str, x: Tensor, make) -> Tensor:
    """`make` of the stacked tensors of all processes, on all of them."""
    key = kind, x.dtype, x.shape
    if key not in _programs:
        ranks = _core.rank_count()
        with _core.Trace() as trace:
            result = make(trace.input("x", [ranks, *x.shape], x.dtype))
        options = {"devices": str(ranks), "parallel": "data_parallel",
                   "dataset_strategy": "data_parallel"}
        _programs[key] = _core.Program(trace, [result], options)
    return _programs[key].run_local([ops.expand_dims(x, 0)])[0]


_reductions = {"sum": lambda x: ops.sum(x, 0), "max": lambda x: ops.max(x, 0), "min": lambda x: -ops.max(-x, 0),
               "mean": lambda x: ops.mean(x, 0)}


def all_reduce(x, op: str = "sum") -> Tensor:
    """The sum (max, min, mean) of all processes' x, on each. Shapes: the same on all."""
    x = _core.array_of(x)
    if op not in _reductions:
        raise ValueError(f"all_reduce '{op}' is unknown; there are {', '.join(_reductions)}")
    return _together(op, x, _reductions[op]) if _core.rank_count() > 1 else x


def all_gather(x) -> Tensor:
    """All processes' x one behind the other along dim 0, on each."""
    x = _core.array_of(x)
    if _core.rank_count() == 1:
        return x
    shape = [_core.rank_count() * x.shape[0], *x.shape[1:]]
    return _together("gather", x, lambda all_x: ops.reshape(all_x, shape))


def broadcast(x, root: int = 0) -> Tensor:
    """x of the process `root`, on all."""
    x = _core.array_of(x)
    return _together(f"broadcast {root}", x, lambda all_x: all_x[root]) if _core.rank_count() > 1 else x


def barrier() -> None:
    """Waits for all."""
    all_reduce(Tensor(0.0))
