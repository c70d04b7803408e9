#!/usr/bin/env bash
# Builds everything and runs the tests: scripts/test.sh [--full] [arguments of ctest]
# --full adds the slow tests and whole tables where otherwise a sample of their rows runs, and draws other combinations
# each time.
set -euo pipefail
cd "$(dirname "$0")/.."

select=(--label-exclude slow)
if [[ ${1:-} == --full ]]; then
  shift
  select=()
  export SHARDWRIGHT_FULL=1 SHARDWRIGHT_SEED=${SHARDWRIGHT_SEED:-$(date +%s)}
  echo "SHARDWRIGHT_SEED=$SHARDWRIGHT_SEED"
fi

scripts/install.sh build tests
cmake --preset release -DSHARDWRIGHT_TESTS=ON -DSHARDWRIGHT_EXAMPLES=ON >&2
ninja -C build/release >&2
ctest --test-dir build/release --output-on-failure --no-label-summary -j2 "${select[@]}" "$@"
