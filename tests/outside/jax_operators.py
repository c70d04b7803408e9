"""Runs cases of operators that tests/exchange/python_operators_test.cpp has written, and compares with what kernels made.

Usage: jax_operators.py [--names] FOLDER, which holds cases.json, tensors.safetensors and the operators' functions. With
--names nothing is run: lines must be Python whose names there are, which any Python can tell.
"""

import ast
import builtins
import json
import os
import struct
import sys

FOLDER = sys.argv[-1]
GIVEN = {"jax", "jnp", "lax", "math"}


# ---- names ----


def unknown(tree, known):
    """Names that are read and that nobody has given."""
    own = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    own |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    own |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    return sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - own - known - set(dir(builtins)))


def check_names(cases):
    with open(FOLDER + "/operators.py") as f:
        module = ast.parse(f.read())
    functions = {n.name for n in module.body if isinstance(n, ast.FunctionDef)}
    failed = [f"{n.name}: {name}" for n in module.body if isinstance(n, ast.FunctionDef)
              for name in unknown(n, functions | GIVEN)]
    for case in cases:
        operands = {f"x{i}" for i in range(len(case["ranks"][0]["operands"]))}
        known = functions | GIVEN | operands | {axis for axis, _ in case["mesh"]}
        failed += [f"{case['op']}: {case['line']}: {name}" for name in unknown(ast.parse(case["line"], mode="eval"), known)]
    print("\n".join(failed + [f"{len(cases)} lines and {len(functions)} functions, {len(failed)} unknown names"]))
    return len(failed) > 0


# ---- values ----


def read_all(path):
    """Safetensors, with no code of what is tested."""
    import jax.numpy as jnp
    import numpy as np

    types = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": jnp.bfloat16, "I64": np.int64,
             "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        entries = json.loads(f.read(length))
        data = f.read()
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in entries.items() if name != "__metadata__"}


def coordinates(rank, mesh):
    out = {}
    for axis, size in reversed(mesh):
        rank, out[axis] = divmod(rank, size)
    return out


def difference(got, want):
    """The largest, relative to what is wanted where that is above 1."""
    import numpy as np

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype} {got.shape} but should be {want.dtype} {want.shape}"
    got, want = np.asarray(got).astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        far = np.where(same, 0, np.abs(got - want) / np.maximum(np.abs(want), 1))
    return far.max() if far.size else 0.0


def check_values(cases):
    sys.path.insert(0, FOLDER)
    import operators  # the folder's
    import jax
    import jax.numpy as jnp

    tensors = read_all(FOLDER + "/tensors.safetensors")
    names = {"jnp": jnp, **vars(operators)}
    failed, ranks = 0, 0
    for number, case in enumerate(cases):
        line = compile(case["line"], case["op"], "eval")

        @jax.jit  # coordinates are known when it runs, as in shard_map
        def run(own, place):
            made = eval(line, {**names, **place, **own})
            return list(made) if isinstance(made, (tuple, list)) else [made]

        for r, rank in enumerate(case["ranks"]):
            ranks += 1
            own = {f"x{i}": tensors[name] for i, name in enumerate(rank["operands"])}
            place = {axis: jnp.int32(at) for axis, at in coordinates(r, case["mesh"]).items()}
            try:
                made = run(own, place)
                far = [difference(got, tensors[name]) for got, name in zip(made, rank["results"])]
                far += [] if len(made) == len(rank["results"]) else [f"{len(made)} results of {len(rank['results'])}"]
                bad = [d for d in far if isinstance(d, str) or not d <= case["tolerance"]]
            except Exception as e:
                bad = [f"{type(e).__name__}: {str(e)[:300]}"]
            if bad:
                failed += 1
                types = ", ".join(f"{tensors[n].dtype}{list(tensors[n].shape)}" for n in rank["operands"])
                print(f"{case['op']} rank {r} of {case['mesh']} ({types}): {case['line']}: {bad[0]}", flush=True)
                break
        if number % 200 == 199:
            jax.clear_caches()
    print(f"{len(cases)} cases on {ranks} ranks, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with open(FOLDER + "/cases.json") as f:
        CASES = json.load(f)
    sys.exit(check_names(CASES) if "--names" in sys.argv else check_values(CASES))
