"""Functions of groups."""

from shardwright import collectives

from .. import context
from .._missing import missing
from .management import members_of


def barrier(group: str | None = None) -> None:
    """Waits for all processes of it."""
    if context.is_rank_view():
        collectives.barrier(members_of(group))


__getattr__ = missing("mindspore.communication.comm_func", globals())
