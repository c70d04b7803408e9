"""Tests of the Python packages: `pytest tests/python`, with the packages of the build on PYTHONPATH."""

import os
import pathlib
import subprocess
import sys

import pytest


@pytest.fixture
def run_program(tmp_path):
    """Runs a Python program as a user would; returns what it printed, by process. ranks: processes under mpirun, 0 without."""

    def run(text_or_path, *arguments, ranks=0, status=0, timeout=120):
        path = text_or_path if isinstance(text_or_path, pathlib.Path) else tmp_path / "program.py"
        if path.name == "program.py":
            path.write_text(text_or_path)
        packages = os.pathsep.join(os.path.abspath(p) for p in os.environ["PYTHONPATH"].split(os.pathsep))
        environment = {**os.environ, "PYTHONPATH": packages, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        words = [sys.executable, str(path), *map(str, arguments)]
        if ranks:
            words = ["mpirun", "-n", str(ranks), "--output-filename", str(tmp_path / "log"), *words]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        if status or not ranks:
            return done if status else done.stdout
        return "".join((tmp_path / "log" / "1" / f"rank.{r}" / "stdout").read_text() for r in range(ranks))

    return run
