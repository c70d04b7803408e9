"""What is being traced: beside the core's trace, what Python must know of it."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import Any, Iterator

from shardwright import _core


class MicroBatches(Exception):
    """A cell that cuts the batch was met: trace again, with the inputs of one of `count` parts, of which `interleave` are
    one micro-batch."""

    def __init__(self, count: int, interleave: int = 1):
        self.count = count
        self.interleave = interleave


class Tracing:
    """One run of a function on traced tensors."""

    def __init__(self, batch_parts: int = 1, interleave: int = 1):
        self.core = _core.Trace(training=True)  # cells say themselves what they do while training
        self.batch_parts = batch_parts
        self.interleave = interleave  # parts of a micro-batch
        self.assigned: dict[int, tuple[Any, Any]] = {}  # by id of a parameter: it, and its next value
        self.seen: dict[int, tuple[Any, Any]] = {}  # by id of a tensor from outside: it, and its elements
        self.modes: dict[int, tuple[Any, bool]] = {}  # by id of a cell: it, and whether it trained
        self.updates: list[Any] = []  # calls of optimizers
        self.prints: list[tuple] = []  # what is shown behind each step
        self._named: dict[tuple[str, str], Any] = {}  # cells by path and name
        self.stages: dict[str, int] = {}  # of modules, by name
        self.turns: dict[str, int] = {}  # of them: how often stages had begun anew when they were met
        self.dims: dict[str, list[int]] = {}  # of the inputs of operators, by name
        self._behind: dict[int, Any] = {}  # arrays by id that are gradients, or made of them

    def __enter__(self) -> Tracing:
        self.core.__enter__()
        _running.append(self)
        return self

    def __exit__(self, *error) -> None:
        _running.remove(self)
        self.core.__exit__(*error)

    def name_of(self, cell, name: str, path: str) -> str:
        """Of a cell that is called inside `path`, where no other has this name: holders that run nothing give none."""
        numbered = (f"{name}_{i}" if i else name for i in itertools.count())
        return name and next(n for n in numbered if self._named.setdefault((path, n), cell) is cell)

    def note_stage(self, module: str, stage: int) -> None:
        """The module is called. Behind one of a later stage it is a chunk of the next turn."""
        if module not in self.stages:
            before = next(reversed(self.stages), None)
            turn = self.turns[before] + (stage < self.stages[before]) if before is not None else 0
            self.stages[module], self.turns[module] = stage, turn

    def note_behind(self, arrays: list) -> None:
        """They are gradients, or made of them."""
        self._behind.update((id(a), a) for a in arrays)

    def is_behind(self, array) -> bool:
        """It is a gradient, or made of some."""
        return id(array) in self._behind

    def is_as_it_was(self) -> bool:
        """Tensors from outside and modes of cells are those that were traced."""
        return (all(tensor.data_now() is data for tensor, data in self.seen.values())
                and all(cell.training == mode for cell, mode in self.modes.values()))


@contextmanager
def outside() -> Iterator[None]:
    """Within it nothing is traced: operators are computed at once."""
    paused = list(_running)
    for tracing in reversed(paused):
        tracing.__exit__()
    try:
        yield
    finally:
        for tracing in paused:
            tracing.__enter__()


_running: list[Tracing] = []


def current() -> Tracing | None:
    """The innermost trace that runs."""
    return _running[-1] if _running else None
