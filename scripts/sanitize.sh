#!/usr/bin/env bash
# Builds the tests with sanitizers and runs them: scripts/sanitize.sh asan|tsan [arguments of ctest]
# asan is address and undefined behaviour, over all tests; tsan is threads, over those of the runtime.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?asan or tsan}
shift
scripts/install.sh build tests
cmake --preset "$preset" >&2
# The thread sanitizer of GCC 12 cannot place its shadow memory where addresses are very random; the build
# runs the tests, too, to list them. Containers may forbid to switch that off, and then mostly need not.
fixed=()
setarch -R true 2>/dev/null && fixed=(setarch -R)
targets=(shardwright_tests)
[[ $preset == asan ]] && targets+=(onnx_fuzz)
"${fixed[@]}" ninja -C "build/$preset" "${targets[@]}" >&2
OMP_NUM_THREADS=1 "${fixed[@]}" \
  ctest --test-dir "build/$preset" --output-on-failure --no-label-summary -j2 "$@"
