"""What `emit --to shardy` writes must parse and verify as JAX's own MLIR reads it.

Usage: shardy.py BINARY. Skipped (77) where no JAX is.
"""

import subprocess
import sys
import tempfile

from agree import CASES, JAX_PYTHON, has_jax

PARSE = """
import sys
from jaxlib.mlir import ir
from jax._src.interpreters import mlir
for path in sys.argv[1:]:
    with mlir.make_ir_context(), open(path) as f:
        module = ir.Module.parse(f.read())
        assert module.operation.verify(), path
    print(path.rsplit("/", 1)[-1], "is verified")
"""


def main():
    if not has_jax():
        print(f"skipped: no JAX in {JAX_PYTHON}; SHARDWRIGHT_JAX_PYTHON says which Python has it")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        written = []
        for name, (model, flags) in CASES.items():
            path = f"{folder}/{name}.mlir"
            done = subprocess.run([sys.argv[1], "emit", model, *flags.split(), "--to", "shardy", "-o", path],
                                  capture_output=True, text=True)
            if done.returncode == 0:
                written.append(path)
            elif "is one program: take --stages 1" not in done.stderr:
                print(f"{name}: {done.stderr}")
                return 1
        assert len(written) >= 12, written
        return subprocess.run([JAX_PYTHON, "-c", PARSE, *written]).returncode


sys.exit(main())
