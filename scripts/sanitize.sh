#!/usr/bin/env bash
# Builds the tests with sanitizers and runs them: scripts/sanitize.sh asan|tsan [arguments of ctest]
# asan is address and undefined behaviour, over all unit tests and the fuzzers; tsan is threads, over the runtime's.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=${1:?asan or tsan}
shift
scripts/install.sh build tests
cmake --preset release -DSHARDWRIGHT_TESTS=ON -DSHARDWRIGHT_EXAMPLES=ON -DSHARDWRIGHT_SANITIZED=ALL >&2
ninja -C build/release "all_$sanitizer" >&2
ctest --test-dir build/release --output-on-failure --no-label-summary -j2 --label-regex "^$sanitizer$" "$@"
