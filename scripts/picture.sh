#!/usr/bin/env bash
# Draws docs/images/plan.png, the README's picture: the step of a plan over time, from the page that the program writes.
# scripts/picture.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-docs/images/plan.png}")

scripts/install.sh build browser
[[ -x build/release/shardwright ]] || scripts/build.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build/release/shardwright plan llama2-70b --cluster a100-80g:64 --global-batch 64 --precision bf16 --optimizer adamw \
  --set dp=2,tp=8,pp=4,micro_batches=16,schedule=1f1b,recompute=selected --html "$scratch/page.html" >/dev/null
mkdir -p "$(dirname "$out")"
PYTHONPATH=tests/scripts python3 - "$scratch/page.html" "$out" <<'PROGRAM'
import sys
from browser import Browser
with Browser() as browser:
    browser.size(1000)
    browser.open(sys.argv[1])
    browser.evaluate("""document.querySelectorAll('#timeline .group, #timeline .readout, #timeline .fine, #timeline .shown').forEach(e => e.remove());
      document.getElementById('timeline').style.padding = '12px'""")
    browser.settle()
    browser.screenshot(sys.argv[2], "#timeline")
PROGRAM
ls -l "$out" >&2
