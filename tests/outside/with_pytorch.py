"""A Python that has PyTorch of PyPI: SHARDWRIGHT_TORCH_PYTHON or ~/.cache/peers/pt/bin/python."""

import os
import subprocess
import sys


def with_pytorch(modules, missing):
    """This process, or another with what is needed. Status 77 if there is none, which `missing` says."""
    python = os.environ.get("SHARDWRIGHT_TORCH_PYTHON") or os.path.expanduser("~/.cache/peers/pt/bin/python")
    if os.environ.get("SHARDWRIGHT_TORCH_INSIDE"):
        return
    if not os.path.exists(python) or subprocess.run([python, "-c", f"import {modules}"], capture_output=True).returncode:
        print(f"skipped: {python} has no {missing}")
        sys.exit(77)
    environment = {**os.environ, "SHARDWRIGHT_TORCH_INSIDE": "1", "PYTHONWARNINGS": "ignore"}
    sys.exit(subprocess.run([python, *sys.argv], env=environment).returncode)
