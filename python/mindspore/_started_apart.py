"""Processes that were started each by itself, with the variables of MindSpore's dynamic networking or of a rank table, become one
job: `shardwright launch`, which takes this process's place, finds the others and starts all of them by mpirun.
"""

from __future__ import annotations

import os
import sys

from shardwright.__main__ import _program

_dynamic = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")
_table = ("RANK_TABLE_FILE", "RANK_ID")


def _has(names: tuple[str, ...]) -> bool:
    return all(os.environ.get(name) for name in names)


def become_launcher() -> None:
    """Before the program has done anything: it begins again, as a rank."""
    is_alone = os.environ.get("MS_WORKER_NUM") == "1" and not _has(_table)
    if "OMPI_COMM_WORLD_RANK" in os.environ or is_alone or not (_has(_dynamic) or _has(_table)) or not _program.exists():
        return
    words = [sys.executable, *sys.orig_argv[1:]]
    os.execv(_program, [str(_program), "launch", "--", *words])


become_launcher()
