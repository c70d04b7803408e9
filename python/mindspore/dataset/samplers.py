"""Which rows an epoch has, in which order."""

from __future__ import annotations

import enum
from typing import Callable

from . import config


class Shuffle(enum.Enum):
    """Which order rows are read in."""

    FALSE, GLOBAL, FILES, INFILE = "false", "global", "files", "infile"


class Sampler:
    """A function of rows of the core to rows."""

    def __init__(self, chosen: Callable):
        self.chosen = chosen


def _first(rows, num_samples):
    return rows if num_samples is None else rows.take(num_samples)


class SequentialSampler(Sampler):
    """In their order, from start_index on."""

    def __init__(self, start_index=None, num_samples=None):
        super().__init__(lambda rows: _first(rows.skip(start_index or 0), num_samples))


class RandomSampler(Sampler):
    """In another order in each epoch."""

    def __init__(self, replacement: bool = False, num_samples=None):
        if replacement:
            raise ValueError("RandomSampler: replacement=True is not in this front end")
        super().__init__(lambda rows: _first(rows.shuffle(config.get_seed()), num_samples))


class DistributedSampler(Sampler):
    """Every num_shards-th row; all shards have as many."""

    def __init__(self, num_shards: int, shard_id: int, shuffle: bool = True, num_samples=None, offset: int = -1):
        if offset != -1:
            raise ValueError("DistributedSampler: offset is not in this front end")
        super().__init__(lambda rows: _first(
            (rows.shuffle(config.get_seed()) if shuffle else rows).shard(num_shards, shard_id), num_samples))
