"""Functions of groups."""

from shardwright import collectives

from .._missing import missing
from .management import _check_ready


def barrier(group: str | None = None) -> None:
    """Waits for all processes."""
    _check_ready("barrier")
    collectives.barrier()


__getattr__ = missing("mindspore.communication.comm_func", globals())
