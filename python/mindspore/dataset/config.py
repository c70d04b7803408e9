"""Settings of data sets."""

from __future__ import annotations

from .. import context

_seed: int | None = None


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
    """Samples are made when they are asked for."""


def set_num_parallel_workers(num: int) -> None:
    """Samples are made one after the other."""
