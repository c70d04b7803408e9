#!/usr/bin/env bash
# Builds the release and runs benchmarks: scripts/bench.sh [NAME...] [WORD...], all of bench/ without a name. What is no
# name is a word for those before it, and all behind it.
# Each prints tables that bench/README.md explains. Peers that are missing are installed.
set -euo pipefail
cd "$(dirname "$0")/.."

all=()
for source in bench/*.cpp; do all+=("$(basename "$source" .cpp)"); done
names=()
while (($#)) && [[ -f bench/$1.cpp ]]; do names+=("$1"); shift; done
if (($#)) && ((!${#names[@]})); then
  echo "bench.sh: benchmark '$1' is unknown; there are ${all[*]}" >&2
  exit 2
fi
((${#names[@]})) || names=("${all[@]}")

scripts/install.sh build peers
# A tree that test.sh has configured keeps its tests; a new one needs neither them nor their packages.
options=(-DSHARDWRIGHT_BENCH=ON)
[[ -f build/release/build.ninja ]] || options+=(-DSHARDWRIGHT_TESTS=OFF -DSHARDWRIGHT_EXAMPLES=OFF)
cmake --preset release "${options[@]}" >&2
ninja -C build/release "${names[@]/#/bench_}" >&2

read -r load _ </proc/loadavg
if awk "BEGIN { exit !($load > 0.5) }"; then
  echo "bench.sh: the load is $load: other processes disturb the figures, above all those of several ranks" >&2
fi
for name in "${names[@]}"; do "build/release/bench/bench_$name" "$@"; done
