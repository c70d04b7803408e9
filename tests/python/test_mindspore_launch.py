"""Launchers, and what becomes of a program of which a rank fails or which is interrupted: nothing hangs or is left."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from mindspore_fixtures import build, environment

start = """
import os, sys, time
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
init()
"""
endless = start + """
net = nn.Dense(64, 64)
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.001))
x = Tensor(np.ones((512, 64)), ms.float32)
step(x, x)
print("ready", flush=True)
while True:
    step(x, x)
"""


def without(*names):
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_")) and k not in names}


def run(words, cwd, **more):
    return subprocess.run([sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=60,
                          env={**without(), "PYTHONPATH": str(build / "python"), **more})


def started(words, cwd):
    return subprocess.Popen(list(map(str, words)), cwd=cwd, env={**without(), **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def left_of(path):
    """Processes that still run a program."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if str(path) in line]


def ends_soon(path):
    for _ in range(50):
        if not left_of(path):
            return True
        time.sleep(0.1)
    return False


# ---- msrun ----

@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(start + """
print(*(os.environ[n] for n in ("RANK_ID", "RANK_SIZE", "DEVICE_ID")), get_rank(), sys.argv[1:], flush=True)
if "fail" in sys.argv and get_rank() == 1:
    raise KeyError("no such thing")
if "fail" in sys.argv:
    ops.AllReduce()(Tensor(1.0))
""")
    return path


@pytest.mark.parametrize("of_python", [[], ["python"], ["python3"]])
def test_msrun_writes_logs_of_workers(program, tmp_path, of_python):
    done = run(["-m", "shardwright.msrun", "--worker_num=2", "--local_worker_num", 2, "--master_port=8118", "--join=True",
                "--log_dir=logs", "--tail_worker_log=1", *of_python, "program.py", "--epochs", 3], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [f"{r} 2 {r} {r} ['--epochs', '3']\n" for r in range(2)]
    assert done.stdout == lines[1]
    assert [(tmp_path / "logs" / f"worker_{r}.log").read_text() for r in range(2)] == lines
    assert "mpirun -n 2" in (tmp_path / "logs" / "scheduler.log").read_text()


def test_msrun_leaves_the_order_of_folders_as_it_was(monkeypatch):
    from shardwright import msrun
    own = str(build / "python")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["first", str(msrun.Path(msrun.__file__).absolute().parent.parent), "last"]))
    assert msrun._environment()["PYTHONPATH"].split(os.pathsep)[:3] == ["first", own, "last"]
    monkeypatch.setenv("PYTHONPATH", "first")
    assert msrun._environment()["PYTHONPATH"].split(os.pathsep)[:2] == ["first", own]


def test_msrun_tells_which_worker_has_failed(program, tmp_path):
    done = run(["-m", "shardwright.msrun", "--worker_num=2", "--join=True", "--worker_log_name=w_{hostname}", "program.py",
                "fail"], tmp_path)
    assert done.returncode == 1
    assert "_1.log: KeyError: 'no such thing'" in done.stderr and "_0.log: " not in done.stderr
    assert ends_soon(program)


def test_msrun_runs_tests(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_rank():\n    from mindspore.communication import init, get_group_size\n"
                                         "    init()\n    assert get_group_size() == 2\n")
    done = run(["-m", "shardwright.msrun", "--worker_num=2", "--join=True", "pytest", "-q", "-p", "no:cacheprovider",
                "test_it.py::test_rank"], tmp_path)
    assert done.returncode == 0 and done.stdout.count("1 passed") == 2


@pytest.mark.parametrize("words, message", [
    (["--worker_num=2", "--local_worker_num=1", "program.py"], "each of the 2 machines is told its own, from 0 on"),
    (["--worker_num=3", "--local_worker_num=2", "program.py"], "should divide them"),
    (["--worker_num=0", "program.py"], "at least one"), (["--worker_num=2", "none.py"], "no file 'none.py'"),
    (["--worker_num=2", "--join=yes", "program.py"], "True or False"), (["--worker_num=2"], "no program"),
    (["--rank_table_file=a.json", "program.py"], "not in this front end"),
    (["--worker_num=2", "--tail_worker_log=2", "program.py"], "0 to 1"),
    (["--worker_num=2", "--log_dir=/proc/none", "program.py"], "--log_dir /proc/none: cannot be written")])
def test_msrun_tells_what_it_cannot_do(program, tmp_path, words, message):
    done = run(["-m", "shardwright.msrun", *words], tmp_path)
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words, message", [
    (["--devcies=8", "program.py"], "--devcies=8 is unknown"), (["--devices", "0", "program.py"], "there is at least one"),
    (["none.py"], "there is no file 'none.py'")])
def test_run_tells_what_it_cannot_do(program, tmp_path, words, message):
    done = run(["-m", "shardwright.run", *words], tmp_path)
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr


def test_processes_that_mpirun_has_not_started(program, tmp_path):
    for how in ({"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"}, {"RANK_TABLE_FILE": "table.json"}):
        done = run(["-m", "shardwright.run", "program.py"], tmp_path, **how)
        assert done.returncode == 1 and "msrun --worker_num=" in done.stderr.splitlines()[-1]


ranks = start + """
print("rank", get_rank(), "of", get_group_size(), "with", ops.AllReduce()(Tensor([float(get_rank())], ms.float32)).asnumpy(), flush=True)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return str(s.getsockname()[1])


def apart(processes):
    """What each has printed; all have ended well."""
    out = [p.communicate(timeout=60) for p in processes]
    assert [p.returncode for p in processes] == [0] * len(processes), out
    return [o for o, _ in out]


def test_processes_find_each_other_by_dynamic_networking(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ranks)
    common = {"MS_WORKER_NUM": "2", "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": free_port()}
    roles = [{"MS_ROLE": "MS_SCHED"}, *({"MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(i)} for i in range(2))]
    said = apart([started(["env", *(f"{k}={v}" for k, v in {**common, **role}.items()), sys.executable, path], tmp_path)
                  for role in roles])
    assert [line for o in said for line in o.splitlines() if line.startswith("rank")] == [
        "rank 0 of 2 with [1.]", "rank 1 of 2 with [1.]"]
    assert ends_soon(path)


def test_processes_find_each_other_by_a_rank_table(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ranks)
    table = tmp_path / "table.json"
    table.write_text('{"server_list": [{"server_id": "127.0.0.1", "device": [{"rank_id": "0"}, {"rank_id": "1"}]}]}')
    said = apart([started(["env", f"RANK_TABLE_FILE={table}", f"RANK_ID={i}", sys.executable, path], tmp_path)
                  for i in range(2)])
    assert [line for o in said for line in o.splitlines() if line.startswith("rank")] == [
        "rank 0 of 2 with [1.]", "rank 1 of 2 with [1.]"]


def test_msrun_on_several_machines(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ranks)
    words = [sys.executable, "-m", "shardwright.msrun", "--worker_num=4", "--local_worker_num=2", "--master_addr=127.0.0.1",
             f"--master_port={free_port()}", "--join=True", f"--log_dir={tmp_path}", "--worker_log_name=w-{hostname}"]
    said = apart([started([*words, f"--node_rank={i}", path], tmp_path) for i in range(2)])
    assert "rank 0 of 4 with [6.]" in said[0] and "rank 3 of 4 with [6.]" in said[1]
    assert sorted(p.name for p in tmp_path.glob("w-*.log")) == [f"w-{socket.gethostname()}_{r}.log" for r in range(4)]


# ---- failures and interrupts ----

def test_a_rank_that_throws_ends_all(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(endless.replace("    step(x, x)", "    if get_rank() == 1:\n        raise KeyError('no such thing')\n"
                                                      "    step(x, x)"))
    mpirun = started(["mpirun", "-n", 2, sys.executable, path], tmp_path)
    _, errors = mpirun.communicate(timeout=60)
    assert mpirun.returncode == 1
    assert "rank 1:" in errors and "KeyError: 'no such thing'" in errors and "rank 0:" not in errors
    assert ends_soon(path)


@pytest.mark.parametrize("words", [["-m", "shardwright.run", "--devices", 4], ["mpirun", "-n", 2]],
                         ids=["virtual devices", "mpirun"])
def test_an_interrupt_in_the_middle_of_a_step(words, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(endless)
    command = [sys.executable, *words, path] if words[0] == "-m" else [*words, sys.executable, path]
    process = started(command, tmp_path)
    assert process.stdout.readline().startswith("ready")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert ends_soon(path)


def test_an_interrupted_msrun_leaves_nothing(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(endless)
    process = started([sys.executable, "-m", "shardwright.msrun", "--worker_num=2", "--join=True", path], tmp_path)
    assert process.stdout.readline().startswith("ready")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130 and ends_soon(path)


def test_a_number_behind_the_program_is_its_own(tmp_path):
    """Even where it is that of our own flag."""
    program = tmp_path / "program.py"
    program.write_text("import os, sys\nprint(os.environ['SHARDWRIGHT_DEVICES'], sys.argv[1:])\n")
    done = subprocess.run([sys.executable, "-m", "shardwright.run", "--devices", "8", program, "8", "--own", "8"],
                          env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.stdout == "8 ['8', '--own', '8']\n", done.stderr
