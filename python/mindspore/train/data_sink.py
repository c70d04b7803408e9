"""Functions that fetch their batches themselves."""

from __future__ import annotations

from typing import Any, Callable, Iterator

from .._compile import jit


def _without_end(dataset) -> Iterator:
    while True:
        is_empty = True
        for batch in dataset:
            is_empty = False
            yield batch
        if is_empty:
            raise ValueError("data_sink: the data set has no batches")


def data_sink(fn: Callable, dataset, sink_size: int = 1, jit_config=None, input_signature=None) -> Callable[[], Any]:
    """A function without arguments: it calls `fn` with the next `sink_size` batches, epoch after epoch.

    It returns what the last call does. jit_config: `fn` becomes a program.
    """
    if not isinstance(sink_size, int) or sink_size < 1:
        raise ValueError(f"sink_size is a whole number above 0, not {sink_size!r}")
    batches = _without_end(dataset)
    step = fn if jit_config is None else jit(fn)

    def sink_process():
        for _ in range(sink_size):
            result = step(*next(batches))
        return result

    return sink_process
