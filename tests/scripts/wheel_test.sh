#!/usr/bin/env bash
# The wheel installs into a virtual environment of its own and works there: wheel_test.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH

cp -r python "$scratch/source" # setuptools writes beside what it builds
SHARDWRIGHT_BUILD=$build /usr/bin/python3 -m pip wheel -q --no-build-isolation --no-deps --no-index -w "$scratch/dist" \
  "$scratch/source"
/usr/bin/python3 -m venv --system-site-packages "$scratch/venv"
"$scratch/venv/bin/pip" install -q --no-deps --no-index "$scratch"/dist/shardwright-*.whl
cd "$scratch" # not where the sources are
"$scratch/venv/bin/python" - <<'PROGRAM'
import numpy as np
import shardwright as sw
assert sw.__file__.startswith(__import__("sys").prefix), sw.__file__
step = sw.train_step(lambda w, x: sw.ops.mean(sw.ops.square(x @ w)), np.ones((4, 2), np.float32), sw.optim.sgd(0.1),
                     devices=2)
losses = [step(np.ones((8, 4), np.float32)).item() for _ in range(3)]
assert losses[0] == 16 and losses[2] < losses[1] < losses[0], losses
PROGRAM
# The program is there, as a module and as a command, with its own exit status.
"$scratch/venv/bin/python" -m shardwright train ffn --devices 2 --steps 2 | grep -q '2 steps on 2 devices'
[[ $("$scratch/venv/bin/shardwright" --version) == "shardwright "* ]]
status=0
"$scratch/venv/bin/shardwright" plan nothing 2>/dev/null || status=$?
((status == 2))
[[ -e $scratch/venv/lib/python3.11/site-packages/shardwright/_compat/mindspore/__init__.py ]]
