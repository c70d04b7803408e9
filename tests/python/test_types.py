"""Annotations hold, and the stub of the C++ module has what the module has."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package alone, as mypy follows no links."""
    import shardwright

    folder = tmp_path_factory.mktemp("types")
    shutil.copytree(Path(shardwright.__file__).parent, folder / "shardwright", ignore=shutil.ignore_patterns("_compat", "__pycache__"))
    # They are not there everywhere, and PyTorch takes minutes to read.
    (folder / "mypy.ini").write_text("[mypy]\n[mypy-torch.*,transformers.*,lightning.*]\nfollow_imports = skip\nignore_missing_imports = True\n")
    return folder


def checked(folder, *words):
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_annotations_hold(package):
    assert "no issues found" in checked(package, "mypy", "--disallow-untyped-defs", "-p", "shardwright")


def test_a_users_program_is_checked(package):
    (package / "user.py").write_text("import shardwright as sw\nx = sw.Tensor([1.0]) + 2\nreveal_type(x.shape)\n"
                                     "sw.train_step(lambda p, x: p, {}, 'adam')\nsw.Mesh((2, 4), ('a', 'b'))('a', 3)\n")
    found = checked(package, "mypy", "user.py")
    assert "builtins.tuple[builtins.int" in found
    assert found.count("error") == 3 and 'expected "Optimizer"' in found and '"int"; expected' in found


def test_the_stub_is_that_of_the_module(package):
    found = checked(package, "mypy.stubtest", "shardwright._core", "--concise")
    # pybind11's classes have a metaclass of their own.
    assert [line for line in found.splitlines() if not re.search(r"metaclass differs|^Found \d+ errors|^$", line)] == []
