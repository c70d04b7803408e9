"""Settings of data sets."""

from __future__ import annotations

from .. import context

_seed: int | None = None
_prefetch_size = 4


def set_seed(seed: int) -> None:
    """Of the order of data sets that are made from now on."""
    global _seed
    _seed = seed


def get_seed() -> int:
    """That, or of mindspore.set_seed, or 1."""
    if _seed is not None:
        return _seed
    return context.get_seed() if context.get_seed() is not None else 1


def set_prefetch_size(size: int) -> None:
    """How many rows (batches, if they are) a thread makes before they are asked for."""
    global _prefetch_size
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"a prefetch size is a whole number above 0, not {size!r}")
    _prefetch_size = size


def get_prefetch_size() -> int:
    return _prefetch_size


def set_num_parallel_workers(num: int) -> None:
    """A hint without effect: one thread makes the rows."""
