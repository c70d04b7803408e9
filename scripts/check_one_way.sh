#!/usr/bin/env bash
# Plans run in one way: `prepare` (runtime/prepare.h) alone compiles what a session runs, and `start_threads` and `start_rank`
# (runtime/start.h) alone make sessions, of what it has prepared. What compiles for an estimate stands below, by name; so
# does who says which devices there are. Prints each violation as file:line.
# Usage: scripts/check_one_way.sh [FOLDER that holds shardwright/ and python/]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
failed=0

# WHAT PATTERN FILES: a use of the pattern outside of these files.
only_in() {
  local what=$1 pattern=$2 files=$3
  local found
  found=$(grep -rnE --include='*.cpp' --include='*.h' -- "$pattern" shardwright python |
    grep -vE "^[^:]+:[0-9]+: *//" | grep -vE "^($files):" | sort -t: -k1,1 -k2,2n || true)
  [[ -z $found ]] && return
  echo "$found"
  echo "check_one_way.sh: $what" >&2
  failed=1
}

only_in 'sessions are made by start_threads and start_rank, of what prepare has made' \
  '(\bSession(\(| [a-z_]+[({])|make_(unique|shared)<Session>\([^s]|emplace<Session>)' \
  'shardwright/runtime/(session|start|prepare)\.(h|cpp)'

only_in 'what runs is compiled by prepare; who compiles for an estimate, a text or a checkpoint is named in this script' \
  '\bcompile_pipeline\(' \
  "shardwright/passes/compile\.(h|cpp)|shardwright/runtime/prepare\.cpp|shardwright/frontend/emit\.cpp|\
shardwright/search/(planning/(suggestion|plan_alike)|automatic/trials)\.cpp|shardwright/explain/(why_not|remedies|binding|unfixed)\.cpp|\
shardwright/frontend/(graph_step|predict|report_summary|import_plan|export_plan)\.cpp|\
shardwright/cli/(programs|device_counts|verbs/diff|verbs/lower|verbs/checkpoint)\.cpp"

only_in 'which devices run a program is said by the options of an entry, or by device_of of the command and device of Python' \
  '\bdefault_devices\(\)' \
  "shardwright/runtime/backend/(backend\.h|default_devices\.cpp)|shardwright/runtime/(session\.h|eager\.cpp)|\
shardwright/frontend/(network|predict|generate)\.h|shardwright/cli/programs\.cpp|python/core/asked\.cpp"

exit "$failed"
