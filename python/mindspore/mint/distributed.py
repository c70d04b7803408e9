"""Processes, under newer names."""

from .._missing import missing
from ..communication.comm_func import barrier
from ..communication.management import destroy_group, get_rank, init, release
from ..communication.management import get_group_size as get_world_size


def init_process_group(backend: str = "hccl", init_method=None, timeout=None, world_size: int = -1, rank: int = -1,
                       store=None, pg_options=None, device_id=None) -> None:
    """The processes that mpirun has started. Raises: ValueError of other ways to find them."""
    for name, said in (("init_method", init_method), ("store", store), ("pg_options", pg_options)):
        if said is not None:
            raise ValueError(f"{name} is not in this front end: mpirun starts the processes")
    init(backend)
    for name, said, found in (("world_size", world_size, get_world_size()), ("rank", rank, get_rank())):
        if said not in (-1, found):
            raise ValueError(f"{name} is {said}, but {found} as mpirun has started the processes")


def destroy_process_group(group: str | None = None) -> None:
    """A group of some ranks; without a name, that of all."""
    destroy_group(group) if group else release()


__getattr__ = missing("mindspore.mint.distributed", globals())
