#!/usr/bin/env bash
# Builds everything and runs the tests: scripts/test.sh [--full] [--sanitizers] [arguments of ctest]
# --full adds the slow tests and whole tables where otherwise a sample of their rows runs, and draws other combinations
# each time. --sanitizers adds the unit tests and the fuzzers with sanitizers; with --full, asan looks after all of the library.
set -euo pipefail
cd "$(dirname "$0")/.."

select=(--label-exclude slow)
sanitized=OFF
while true; do
  case ${1:-} in
    --full)
      select=()
      export SHARDWRIGHT_FULL=1 SHARDWRIGHT_SEED=${SHARDWRIGHT_SEED:-$(date +%s)}
      echo "SHARDWRIGHT_SEED=$SHARDWRIGHT_SEED"
      ;;
    --sanitizers) sanitized=ON ;;
    *) break ;;
  esac
  shift
done

[[ $sanitized == ON && -v SHARDWRIGHT_FULL ]] && sanitized=ALL
scripts/install.sh build python tests
cmake --preset release -DSHARDWRIGHT_TESTS=ON -DSHARDWRIGHT_EXAMPLES=ON -DSHARDWRIGHT_PYTHON=ON \
  -DSHARDWRIGHT_SANITIZED=$sanitized >&2
ninja -C build/release >&2
ctest --test-dir build/release --output-on-failure --no-label-summary -j2 "${select[@]}" "$@"
