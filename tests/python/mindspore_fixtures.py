"""What tests of MindSpore's names share: where the packages are, digits, programs on devices and as ranks, settings."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

root = Path(__file__).resolve().parents[2]
build = Path(os.environ.get("SHARDWRIGHT_BUILD", root / "build" / "release"))
packages = [str(build / "python"), str(build / "python" / "shardwright" / "_compat")]
sys.path[:0] = packages
environment = {"PYTHONPATH": os.pathsep.join(packages), "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A folder with digits in MNIST's format."""
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([build / "shardwright", "data", "digits", "--out", folder, "--train", "320", "--test", "64"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def _run(words, digits):
    done = subprocess.run(words, env={**os.environ, **environment, "DATA_PATH": str(digits)}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def _run_on(devices, path, digits):
    return _run([sys.executable, "-m", "shardwright.run", "--devices", str(devices), str(path)], digits)


# What one device prints, many runs are compared with.
_run_alone = functools.cache(functools.partial(_run_on, 1))


@pytest.fixture
def run_on(digits):
    """Runs a program on so many virtual devices; what it prints, line by line."""
    return lambda devices, path: _run_alone(path, digits) if devices == 1 else _run_on(devices, path, digits)


@pytest.fixture
def run_as_ranks(digits, tmp_path):
    """The same with a process for each rank; what each of them prints."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not here")

    def run(ranks, path):
        _run(["mpirun", "-n", str(ranks), "--output-filename", tmp_path / "log", sys.executable, str(path)], digits)
        return [(tmp_path / "log" / "1" / f"rank.{r}" / "stdout").read_text().splitlines() for r in range(ranks)]

    return run


@pytest.fixture
def settings(monkeypatch):
    """Graph mode, one device, and otherwise default settings."""
    import mindspore as ms

    monkeypatch.delenv("SHARDWRIGHT_DEVICES", raising=False)
    ms.reset_auto_parallel_context()
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    yield
    ms.reset_auto_parallel_context()


@pytest.fixture
def virtual_devices(settings, monkeypatch):
    """Makes so many devices, in a mode in which they share programs."""
    import mindspore as ms

    def make(count, parallel_mode="semi_auto_parallel", **context):
        monkeypatch.setenv("SHARDWRIGHT_DEVICES", str(count))
        ms.set_auto_parallel_context(parallel_mode=parallel_mode, **context)

    return make
