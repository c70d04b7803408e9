"""Starts a program as processes: python3 -m shardwright.msrun --worker_num=8 --local_worker_num=8 program.py ...

The launcher of MindSpore's programs, over mpirun, on this machine. What a process prints is in LOG_DIR/worker_R.log, what
mpirun says in LOG_DIR/scheduler.log.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from .run import folder_of_mindspore, installed_mindspore

_without_effect = "has no effect: mpirun finds the processes of one machine itself"


def _parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="msrun", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker_num", type=int, default=8, metavar="N", help="processes (default: 8)")
    parser.add_argument("--local_worker_num", type=int, metavar="N", help="those on this machine: all")
    parser.add_argument("--log_dir", default=".", metavar="DIR", help="where logs are written (default: here)")
    parser.add_argument("--join", type=_truth, default=False, metavar="True|False",
                        help="wait for the end, and leave with its status (default: False)")
    parser.add_argument("--worker_log_name", default="worker", metavar="NAME",
                        help="logs are NAME_R.log; {ip} and {hostname} in it are those of this machine")
    parser.add_argument("--tail_worker_log", default="-1", metavar="R,...",
                        help="ranks whose lines are shown here, with --join=True (default: -1, all)")
    parser.add_argument("--bind_core", type=_truth, default=False, metavar="True|False",
                        help="a core for each process (default: False)")
    for name, default in (("master_addr", "127.0.0.1"), ("master_port", "8118"), ("node_rank", "-1"),
                          ("cluster_time_out", "600")):
        parser.add_argument(f"--{name}", default=default, metavar="X", help=_without_effect)
    for name, default in (("sim_level", "-1"), ("rank_table_file", "")):
        parser.add_argument(f"--{name}", default=default, metavar="X", help="is not in this front end")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a Python file, or python, python3 or pytest ...")
    known = parser.parse_args(words)
    if known.worker_num < 1:
        parser.error(f"--worker_num={known.worker_num}: there is at least one")
    if known.local_worker_num not in (None, known.worker_num):
        parser.error(f"--local_worker_num={known.local_worker_num} of {known.worker_num} workers: this msrun starts "
                     "processes on one machine; for several use mpirun --host")
    for name, default in (("sim_level", "-1"), ("rank_table_file", "")):
        if getattr(known, name) != default:
            parser.error(f"--{name} is not in this front end")
    if not known.program:
        parser.error("there is no program to start")
    return known


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' should be True or False")
    return text.lower() == "true"


def _ranks(text: str, count: int) -> list[int]:
    """Of a list of numbers; -1: all. Exits if one is no rank."""
    try:
        ranks = [int(word) for word in text.split(",")]
    except ValueError:
        ranks = [count]
    if ranks == [-1]:
        return list(range(count))
    if any(not 0 <= r < count for r in ranks):
        sys.exit(f"msrun: --tail_worker_log={text}: ranks are from 0 to {count - 1}, separated by commas")
    return ranks


def _command(program: list[str]) -> list[str]:
    """By this Python, of which Debian has no `python`."""
    if program[0] in ("python", "python3"):
        return [sys.executable, *program[1:]]
    if program[0] == "pytest":
        return [sys.executable, "-m", "pytest", *program[1:]]
    if not Path(program[0]).is_file():
        sys.exit(f"msrun: there is no file '{program[0]}'")
    return [sys.executable, *program]


def _log_name(name: str) -> str:
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        address = "127.0.0.1"
    return name.replace("{hostname}", host).replace("{ip}", address)


def _environment() -> dict[str, str]:
    """In which mpirun starts more processes than there are cores, as root too, and `import mindspore` finds ours unless
    another one is installed."""
    beside = [str(Path(__file__).absolute().parent.parent)]
    if not installed_mindspore():
        beside.append(str(folder_of_mindspore()))
    path = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path + [p for p in beside if p not in path]), "PYTHONUNBUFFERED": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _start(known: argparse.Namespace, logs: str) -> subprocess.Popen:
    """mpirun, in whose processes a shell sets what programs look for and becomes Python."""
    in_each = ("export RANK_ID=$OMPI_COMM_WORLD_RANK RANK_SIZE=$OMPI_COMM_WORLD_SIZE "
               "DEVICE_ID=$OMPI_COMM_WORLD_LOCAL_RANK; "
               f'exec "$@" > {shlex.quote(logs)}_$RANK_ID.log 2>&1')
    words = ["mpirun", "-n", str(known.worker_num), "--bind-to", "core" if known.bind_core else "none",
             "sh", "-c", in_each, "sh", *_command(known.program)]
    with open(Path(known.log_dir) / "scheduler.log", "w", encoding="utf-8") as log:
        print("msrun:", shlex.join(words), file=log, flush=True)
        return subprocess.Popen(words, env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True)


def _show(path: Path, ended: threading.Event) -> None:
    """Writes out what a log gets, until all has ended."""
    while not path.exists() and not ended.wait(0.05):
        pass
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as log:
        while True:
            is_last = ended.is_set()
            for line in log:
                sys.stdout.write(line)
            sys.stdout.flush()
            if is_last:
                return
            time.sleep(0.05)


def _join(mpirun: subprocess.Popen, logs: list[Path]) -> int:
    """Its status. An interrupt ends the processes."""
    stopped_by: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped_by.append(number)
        mpirun.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    ended = threading.Event()
    threads = [threading.Thread(target=_show, args=(path, ended), daemon=True) for path in logs]
    for thread in threads:
        thread.start()
    status = mpirun.wait()
    ended.set()
    for thread in threads:
        thread.join()
    return 128 + stopped_by[0] if stopped_by else status


def _tell_failure(path: Path) -> None:
    """A line, if the log ends with what Python says of an exception."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if "Traceback" in text:
        print(f"{path}: {text.strip().splitlines()[-1]}", file=sys.stderr)


def main(words: list[str] | None = None) -> None:
    known = _parsed(words)
    if not shutil.which("mpirun"):
        sys.exit("msrun: mpirun is not here; on Debian it is in the package openmpi-bin")
    shown = _ranks(known.tail_worker_log, known.worker_num)
    try:
        os.makedirs(known.log_dir, exist_ok=True)
        open(Path(known.log_dir) / "scheduler.log", "w", encoding="utf-8").close()
    except OSError as error:
        sys.exit(f"msrun: --log_dir {known.log_dir}: cannot be written: {error.strerror}")
    logs = str(Path(known.log_dir).absolute() / _log_name(known.worker_log_name))
    of_ranks = [Path(f"{logs}_{r}.log") for r in range(known.worker_num)]
    for path in of_ranks:
        path.unlink(missing_ok=True)
    mpirun = _start(known, logs)
    if not known.join:
        return
    status = _join(mpirun, [of_ranks[r] for r in shown])
    if status:
        print(f"msrun: the program has ended with status {status}", file=sys.stderr)
        for path in of_ranks:
            _tell_failure(path)
    sys.exit(status)


if __name__ == "__main__":
    main()
