"""Starts a program as processes: python3 -m shardwright.msrun --worker_num=8 --local_worker_num=8 program.py ...

The launcher of MindSpore's programs, over mpirun. What a process prints is in LOG_DIR/worker_R.log, what mpirun says in
LOG_DIR/scheduler.log. On several machines each runs the same msrun, with another --node_rank: they meet at
--master_addr and --master_port, by `shardwright launch`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from .__main__ import _program
from .run import folder_of_mindspore, installed_mindspore

_without_effect = "of several machines; has no effect on one"


def _parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="msrun", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker_num", type=int, default=8, metavar="N", help="processes (default: 8)")
    parser.add_argument("--local_worker_num", type=int, metavar="N", help="those on each machine (default: all)")
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
    known.machines = _machines(parser, known)
    for name, default in (("sim_level", "-1"), ("rank_table_file", "")):
        if getattr(known, name) != default:
            parser.error(f"--{name} is not in this front end")
    if not known.program:
        parser.error("there is no program to start")
    return known


def _machines(parser: argparse.ArgumentParser, known: argparse.Namespace) -> int:
    """How many there are, each with as many processes."""
    local = known.local_worker_num or known.worker_num
    if local < 1 or known.worker_num % local:
        parser.error(f"--local_worker_num={local} of {known.worker_num} workers: each machine has as many, so it should "
                     "divide them")
    machines = known.worker_num // local
    node = _number(known.node_rank)
    if machines > 1 and (node is None or node >= machines):
        parser.error(f"--node_rank={known.node_rank}: each of the {machines} machines is told its own, from 0 on")
    if machines > 1 and not _number(known.master_port):
        parser.error(f"--master_port={known.master_port} should be a number")
    if machines > 1 and known.bind_core:
        parser.error("--bind_core=True: processes are bound on one machine only")
    return machines


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


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
    """On several machines all are told the same, and a shell on each fills it in."""
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


def _shell_name(known: argparse.Namespace) -> str:
    """Of logs, for a shell on any of the machines."""
    path = str(Path(known.log_dir).absolute() / known.worker_log_name)
    quoted = shlex.quote(path) if "{" not in path else '"' + re.sub(r'([\\"$`])', r"\\\1", path) + '"'
    return quoted.replace("{hostname}", "$(uname -n)").replace("{ip}", "$(hostname -i | cut -d ' ' -f 1)")


def _mpirun(known: argparse.Namespace) -> list[str]:
    if known.machines == 1:
        return ["mpirun", "-n", str(known.worker_num), "--bind-to", "core" if known.bind_core else "none"]
    if not _program.exists():
        sys.exit(f"msrun: {_program} is not there, which starts processes on several machines; pip install ./python")
    return [str(_program), "launch", "--devices", str(known.worker_num), "--nodes", str(known.machines),
            "--node-rank", known.node_rank, "--master-addr", known.master_addr, "--master-port", known.master_port,
            "--timeout", f"{known.cluster_time_out}s", "--"]


def _start(known: argparse.Namespace, logs: str) -> subprocess.Popen:
    """mpirun, in whose processes a shell sets what programs look for and becomes Python."""
    name = shlex.quote(logs) if known.machines == 1 else _shell_name(known)
    in_each = ("export RANK_ID=$OMPI_COMM_WORLD_RANK RANK_SIZE=$OMPI_COMM_WORLD_SIZE "
               "DEVICE_ID=$OMPI_COMM_WORLD_LOCAL_RANK; "
               f'exec "$@" > {name}_$RANK_ID.log 2>&1')
    words = [*_mpirun(known), "sh", "-c", in_each, "sh", *_command(known.program)]
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


def _ranks_here(known: argparse.Namespace) -> range:
    local = known.worker_num // known.machines
    first = 0 if known.machines == 1 else int(known.node_rank) * local
    return range(first, first + local)


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
    of_ranks = {r: Path(f"{logs}_{r}.log") for r in _ranks_here(known)}
    for path in of_ranks.values():
        path.unlink(missing_ok=True)
    mpirun = _start(known, logs)
    if not known.join:
        return
    status = _join(mpirun, [of_ranks[r] for r in shown if r in of_ranks])
    if status:
        print(f"msrun: the program has ended with status {status}", file=sys.stderr)
        for path in of_ranks.values():
            _tell_failure(path)
    sys.exit(status)


if __name__ == "__main__":
    main()
