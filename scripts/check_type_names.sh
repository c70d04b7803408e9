#!/usr/bin/env bash
# No two types of a namespace have one name, wherever they stand: the linker would take the functions of either for both
# and say nothing. Names in unnamed namespaces are a file's own. Prints each pair as file:line.
# Usage: scripts/check_type_names.sh [FOLDER that holds shardwright/]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

folders=(shardwright)
[[ -d python/core ]] && folders+=(python/core)

# clang-format puts what stands in a namespace into the first column.
# shellcheck disable=SC2016 # awk's own $
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' \) | sort | xargs -r awk '
  FNR == 1 { depth = 0 }
  /^namespace .*\{$/ { space[++depth] = ($2 == "{") ? "" : $2 "::" }
  /^\}  \/\/ namespace/ && depth { --depth }
  /^(struct|class|enum|union) .*\{/ {
    path = ""
    for (i = 1; i <= depth; ++i) {
      if (space[i] == "") next
      path = path space[i]
    }
    name = $0
    sub(/^(struct|class|enum class|enum|union) /, "", name)
    sub(/^alignas\([^)]*\) /, "", name)
    if (!match(name, /^[A-Za-z_0-9]+/)) next
    rest = substr(name, RLENGTH + 1)
    name = path substr(name, 1, RLENGTH)
    if (rest ~ /^(::|<)/) next  # a member of a class, a specialisation
    if (name in places) {
      print FILENAME ":" FNR ": " name " is a type in " places[name] ", too; name one of them otherwise"
      found = 1
    } else places[name] = FILENAME ":" FNR
  }
  END { exit found }'
