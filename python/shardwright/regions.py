"""What is said of parts of a network: how values lie at their edges, and what is computed again instead of kept."""

from __future__ import annotations

from typing import Any, Callable

from . import _core
from ._core import Tensor

__all__ = ["recompute", "reshard", "shard"]


def _one_or_all(results: list[Tensor], is_one: bool) -> Any:
    return results[0] if is_one else tuple(results)


class _Shape:
    """Remembers whether a function returned one tensor or several."""

    def __init__(self, fn: Callable):
        self.fn, self.is_one = fn, True

    def __call__(self, *x: Any) -> Any:
        result = self.fn(*x)
        self.is_one = isinstance(result, Tensor)
        return result


def shard(fn: Callable, in_split: Any = None, out_split: Any = None, parameters: dict | None = None,
          name: str = "sharded") -> Callable:
    """`fn` of tensors, whose inputs, results and parameters lie as said; what is inside is found.

    in_split, out_split: an entry for each, None where it is free: parts per dim, `(2, 4)`, or `mesh("dp", None)`.
    parameters: splits by name, or by as much of its end as is unique.
    """
    def run(*x: Any) -> Any:
        if _core.tracing() is None:
            return fn(*x)
        shape = _Shape(fn)
        results = _core.sharded(shape, [_core.array_of(t) for t in x], in_split, out_split, parameters or {}, name)
        return _one_or_all(results, shape.is_one)

    return run


def recompute(fn: Callable, communication: bool = True, shard_kept: bool = False, name: str = "") -> Callable:
    """`fn` of tensors, what it makes inside being dropped after the forward and computed again in the backward."""
    def run(*x: Any) -> Any:
        if _core.tracing() is None:
            return fn(*x)
        shape = _Shape(fn)
        return _one_or_all(_core.recomputed(shape, [_core.array_of(t) for t in x], communication, shard_kept, name),
                           shape.is_one)

    return run


def reshard(x: Any, split: Any, name: str = "") -> Tensor:
    """x; who reads the result finds it split so."""
    x = _core.array_of(x)
    return x if _core.tracing() is None else _core.reshard(x, split, name)
