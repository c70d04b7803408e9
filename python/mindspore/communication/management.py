"""Ranks and groups: processes that mpirun has started, or one that stands for all and is rank 0."""

from __future__ import annotations

import os
import sys

from shardwright import _core

from .. import context
from .._missing import missing

GlobalComm = type("GlobalComm", (), {"WORLD_COMM_GROUP": "world", "BACKEND": "shardwright"})
HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
_is_ready = False
# Programs look for what their launchers set.
for _name, _value in (("RANK_ID", _core.own_rank()), ("RANK_SIZE", context.device_count()),
                      ("DEVICE_ID", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))):
    if _name not in os.environ or context.device_count() > 1:
        os.environ[_name] = str(_value)
_groups: dict[str, list[int]] = {}


def init(backend_name: str | None = None) -> None:
    """Makes ranks known, and meets the others. Raises: RuntimeError of processes that mpirun has not started."""
    global _is_ready
    if backend_name not in (None, "hccl", "nccl", "mccl"):
        raise ValueError(f"backend '{backend_name}' is unknown; there are hccl, nccl, mccl: all mean ours")
    _check_launcher()
    if not _is_ready:
        _core.join()
    _is_ready = True


def _check_launcher() -> None:
    """Raises: RuntimeError if this process looks for others in a way that there is not here."""
    if _core.rank_count() > 1:
        return
    count = os.environ.get("MS_WORKER_NUM", "N")
    how = ("MS_ROLE and MS_SCHED_HOST" if "MS_ROLE" in os.environ or count not in ("N", "1")
           else "a rank table" if os.environ.get("RANK_TABLE_FILE") else "")
    if how:
        program = " ".join(sys.argv)
        raise RuntimeError(f"processes that find each other by {how} are not in this front end; start them together: "
                           f"mpirun -n {count} python3 {program}, or msrun --worker_num={count} {program}")


def release() -> None:
    global _is_ready
    _is_ready = False
    _groups.clear()


def _check_ready(what: str) -> None:
    if not _is_ready:
        raise RuntimeError(f"{what} needs communication.init() before it")


def _ranks_of(group: str | None) -> list[int] | None:
    if group is None or group in ("world", HCCL_WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP):
        return None
    if group not in _groups:
        raise ValueError(f"group '{group}' does not exist; make it by create_group('{group}', ranks)")
    return _groups[group]


def get_rank(group: str | None = None) -> int:
    _check_ready("get_rank")
    ranks = _ranks_of(group)
    own = _core.own_rank()
    if ranks is None:
        return own
    if own not in ranks:
        raise RuntimeError(f"rank {own} is not in group '{group}' of {ranks}")
    return ranks.index(own)


def members_of(group: str | None) -> list[int]:
    """Its ranks. Raises: RuntimeError before init, ValueError of a group that does not exist."""
    _check_ready("a collective")
    ranks = _ranks_of(group)
    return list(range(context.device_count())) if ranks is None else ranks


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    members = members_of(group)
    if not 0 <= group_rank_id < len(members):
        raise ValueError(f"group '{group}' has the ranks 0 to {len(members) - 1}, not {group_rank_id}")
    return members[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    members = members_of(group)
    if world_rank_id not in members:
        raise ValueError(f"rank {world_rank_id} is not in group '{group}' of {members}")
    return members.index(world_rank_id)


def get_local_rank(group: str | None = None) -> int:
    return get_rank(group)


def get_group_size(group: str | None = None) -> int:
    _check_ready("get_group_size")
    ranks = _ranks_of(group)
    return context.device_count() if ranks is None else len(ranks)


def get_local_rank_size(group: str | None = None) -> int:
    return get_group_size(group)


def create_group(group: str, rank_ids: list[int]) -> None:
    _check_ready("create_group")
    are_ranks = all(0 <= r < context.device_count() for r in rank_ids)
    if not rank_ids or sorted(set(rank_ids)) != list(rank_ids) or not are_ranks:
        raise ValueError(f"group '{group}': ranks are ascending numbers from 0 to {context.device_count() - 1}, "
                         f"not {rank_ids}")
    _groups[group] = list(rank_ids)


def destroy_group(group: str) -> None:
    _groups.pop(group, None)


__getattr__ = missing("mindspore.communication.management", globals())
