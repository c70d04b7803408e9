#!/usr/bin/env bash
# check_layers.sh finds what is planted, at its line, and nothing else.
set -euo pipefail
check=$(realpath "$(dirname "$0")/../../scripts/check_layers.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

plant() { mkdir -p "$(dirname "$1")" && printf '%b' "$2" >"$1"; }
plant shardwright/base/text.h '#pragma once\n#include <string>\n'
plant shardwright/runtime/communicator/threads.cpp '#include "shardwright/runtime/a.h"\n#include "shardwright/base/text.h"\n'
plant shardwright/shardwright.h '#include "shardwright/runtime/a.h"\n'
"$check" "$folder" || { echo "found violations where there are none" >&2; exit 1; }

plant shardwright/graph/graph.cpp '// a graph\n#include "shardwright/plan/plan.h"\n'
plant shardwright/verify/verify.cpp '#include "shardwright/simulate/time.h"\n'
plant shardwright/layout/mesh.cpp '\n\n  #include "mesh.h"\n'
plant shardwright/extra/a.h '#pragma once\n'
if found=$("$check" "$folder"); then
  echo "found nothing where there are violations" >&2
  exit 1
fi
diff - <(echo "$found") <<'END'
shardwright/extra/a.h:1: folder extra has no place in the order of layers
shardwright/graph/graph.cpp:2: graph must not include plan: shardwright/plan/plan.h
shardwright/layout/mesh.cpp:3: "mesh.h" must be included as "shardwright/FOLDER/..."
shardwright/verify/verify.cpp:1: verify must not include simulate: shardwright/simulate/time.h
END
