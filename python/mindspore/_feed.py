"""How what each rank reads becomes the batch of a program."""

from __future__ import annotations

import math

import numpy
from shardwright import _core

from . import context


class Feed:
    """How arguments become the whole batch: each part of it is what the ranks read of theirs, side by side."""

    def __init__(self, arrays: list, is_fed: bool, batch_parts: int, interleave: int = 1):
        self.cuts = _checked(context.cuts_of_batch(), arrays) if is_fed else []
        copies = context.copies_of_batch() if is_fed else 1
        self.rows = {a.shape[0] for a in arrays if a.shape}
        self.is_batch = len(self.rows) == 1 or bool(batch_parts > 1 and self.rows)
        self.copies = copies if self.is_batch else 1
        self.batch_parts = batch_parts
        self.interleave = interleave  # of which so many are a micro-batch
        if batch_parts > 1 and (not self.is_batch or any(count % batch_parts for count in self.rows)):
            raise ValueError(f"a batch of {[list(a.shape) for a in arrays]} cannot be cut into {batch_parts} equal "
                             "micro-batches along dim 0")

    def shape(self, index: int, array) -> list[int]:
        """Of input `index`, in a part of the whole."""
        if self.cuts:
            whole = [size * parts for size, parts in zip(array.shape, self.cuts[index])]
            return [whole[0] // self.batch_parts, *whole[1:]] if self.is_batch and whole else whole
        if not self.is_batch or not array.shape:
            return list(array.shape)
        return [array.shape[0] * self.copies // self.batch_parts, *array.shape[1:]]

    def whole(self, array):
        if self.copies == 1 or not array.shape:
            return array
        parts = array.numpy().reshape(self.batch_parts, 1, -1, *array.shape[1:])
        repeated = numpy.repeat(parts, self.copies, axis=1)
        return _core.Tensor(numpy.ascontiguousarray(repeated.reshape(-1, *array.shape[1:])), array.dtype)

    def own(self, array, is_of_batch: bool):
        """What this rank has of a result."""
        if not is_of_batch or self.copies == 1 or not array.shape:
            return array
        rows = array.numpy()
        if rows.shape[0] not in {count * self.copies for count in self.rows}:
            return array
        parts = rows.reshape(self.batch_parts, self.copies, -1, *rows.shape[1:])[:, _core.own_rank() % self.copies]
        return _core.Tensor(numpy.ascontiguousarray(parts.reshape(-1, *rows.shape[1:])), array.dtype)

    @property
    def is_by_rows(self) -> bool:
        """Each process feeds its own rows of the whole batch."""
        return self.copies > 1 and context.is_rank_view()

    def run(self, program, arrays: list) -> list:
        """A step of the program."""
        if self.cuts:
            return program.run_local(arrays, self.cuts)
        return program.run_local(arrays) if self.is_by_rows else program.run([self.whole(a) for a in arrays])

    def annotations(self, captured: list[list[int]]) -> dict:
        """Where the parts of inputs lie: part rank % parts, row-major, on each rank; what was captured lies whole.

        Axes are the ratios of all numbers of parts that follow each other in a row: of ((1, 4), (2, 1)) on 8 ranks 2, 2, 2.
        """
        if not self.cuts:
            return {}
        ends = {math.prod(cut[d:]) for cut in self.cuts for d in range(len(cut))}
        steps = sorted({1, context.devices_of_stage(), *ends})
        if any(b % a for a, b in zip(steps, steps[1:])):
            raise ValueError(f"dataset_strategy {tuple(map(tuple, self.cuts))} on {steps[-1]} ranks: "
                             f"{' and '.join(str(s) for s in steps[1:])} parts do not divide each other")
        axes = {end: (f"a{end}", end // begin) for begin, end in zip(steps, steps[1:])}

        def lies(cut: list[int], d: int):
            begin, end = math.prod(cut[d + 1:]), math.prod(cut[d:])
            return [name for at, (name, _) in sorted(axes.items(), reverse=True) if begin < at <= end]

        matrix = [axes[at] for at in sorted(axes, reverse=True)]
        return {"dataset": {"in": [[lies(cut, d) for d in range(len(cut))]
                                   for cut in [*self.cuts, *([1] * len(shape) for shape in captured)]],
                            "device_matrix": [size for _, size in matrix], "names": [name for name, _ in matrix]}}


def _checked(cuts: list[list[int]], arrays: list) -> list[list[int]]:
    """Those of the inputs. Raises: ValueError if they do not fit."""
    if not cuts:
        return []
    if len(cuts) < len(arrays):
        raise ValueError(f"dataset_strategy has entries for {len(cuts)} inputs, but there are {len(arrays)}")
    for cut, array in zip(cuts, arrays):
        if len(cut) != len(array.shape):
            raise ValueError(f"dataset_strategy cuts {tuple(cut)} an input of shape {array.shape}: it takes a number of "
                             "parts for each dim")
        if context.devices_of_stage() % math.prod(cut):
            raise ValueError(f"dataset_strategy {tuple(cut)} has {math.prod(cut)} parts, which do not divide the "
                             f"{context.devices_of_stage()} ranks")
    return cuts[:len(arrays)]
