#!/usr/bin/env bash
# Installs what is missing and builds the release: build/release/shardwright. Arguments: other targets.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh build
# A tree that test.sh has configured keeps its tests; a new one needs neither them nor their packages.
[[ -f build/release/build.ninja ]] ||
  cmake --preset release -DSHARDWRIGHT_TESTS=OFF -DSHARDWRIGHT_EXAMPLES=OFF >&2
ninja -C build/release "${@:-shardwright}" >&2
