#!/usr/bin/env bash
# Only operators' own files, the backends' kernels and the frontend name operators: what everything else knows of
# them it reads off their rules, and the calls that it adds are functions of ops/calls.h. Prints each violation
# as file:line. Usage: scripts/check_operator_names.sh [FOLDER that holds shardwright/]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

folders=()
for folder in base layout graph autodiff cost plan annotations lower passes simulate verify search explain exchange runtime; do
  [[ -d shardwright/$folder ]] && folders+=("shardwright/$folder")
done
((${#folders[@]})) || exit 0

# A call of, a look-up of or a comparison with a named operator; also where the name stands on the next line.
# shellcheck disable=SC2016 # awk's own $
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' \) -not -path '*/backend/*' | sort | xargs -r awk '
  FNR == 1 { open_call = "" }
  {
    code = $0
    sub(/^[ \t]*\/\/.*/, "", code)
    sub(/[ \t]\/\/.*/, "", code)
    text = open_call code
    if (match(text, /(call|call_all|find_op)\([ \t]*"[a-z_.]+"|op(\.|->)name [!=]= "[a-z_.]+"/)) {
      split(substr(text, RSTART), quoted, "\"")
      print FILENAME ":" FNR ": names operator " quoted[2] "; take it from ops/calls.h or from a facet of OpDef"
      found = 1
    }
    open_call = match(code, /(call|call_all|find_op)\([ \t]*$/) ? substr(code, RSTART) : ""
  }
  END { exit found }'
