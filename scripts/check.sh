#!/usr/bin/env bash
# Checks that run no tests: format, shell scripts, file names, layers, names of operators and types; with --tidy clang-tidy, too.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh checks
failed=0

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run -Werror "${sources[@]}" || failed=1

mapfile -t shell < <(git ls-files '*.sh' '.ci/run')
shellcheck "${shell[@]}" || failed=1

# A file is named after what it holds; these names hold whatever comes along. MindSpore's modules have MindSpore's names.
if git ls-files | grep -v '^python/mindspore/' | grep -E '(^|/)(utils?|commons?|helpers?|misc)(/|\.|$)'; then
  echo "check.sh: the files above are named after no thing; name them after what they hold" >&2
  failed=1
fi

# A person reads a file in one sitting.
most_lines=400
mapfile -t code < <(git ls-files 'shardwright/*.h' 'shardwright/*.cpp')
if ! wc -l "${code[@]}" |
  awk -v most=$most_lines '$2 != "total" && $1 > most { print $2 ": " $1 " lines"; found = 1 } END { exit found }'; then
  echo "check.sh: the files above have more than $most_lines lines; split them by idea" >&2
  failed=1
fi

scripts/check_layers.sh || failed=1
scripts/check_operator_names.sh || failed=1
scripts/check_type_names.sh || failed=1
scripts/check_one_way.sh || failed=1

if [[ ${1:-} == --tidy ]]; then
  scripts/install.sh build tests tidy
  cmake --preset release -DSHARDWRIGHT_TESTS=ON >/dev/null
  ninja -C build/release >&2 # headers that the build writes
  git ls-files 'shardwright/*.cpp' | xargs -P "$(nproc)" -n 4 clang-tidy-16 -p build/release --quiet || failed=1
fi
exit "$failed"
