"""This process among those that mpirun has started: what fails in one ends all."""

from __future__ import annotations

import sys
from types import TracebackType

from . import _core


def watch() -> None:
    """Lets an exception that nobody catches end the other processes, which would wait for this one for ever."""
    if _core.rank_count() == 1:
        return
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        # One that was told of another's failure leaves the word to that.
        if not issubclass(kind, ConnectionError):
            print(f"rank {_core.own_rank()}:", file=sys.stderr)
            usual(kind, value, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        _core.join()
        _core.end_all(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
