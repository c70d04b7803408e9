#!/usr/bin/env bash
# check_operator_names.sh finds what is planted, at its line, and nothing else.
set -euo pipefail
check=$(realpath "$(dirname "$0")/../../scripts/check_operator_names.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

plant() { mkdir -p "$(dirname "$folder/$1")" && printf '%b' "$2" >"$folder/$1"; }
plant shardwright/ops/unary.cpp 'g.call("neg", {dy});\n'
plant shardwright/frontend/modules.cpp 'trace.call("matmul", {x, w});\n'
plant shardwright/runtime/backend/cpu/cpu.cpp 'if (op.name == "matmul") return;\n'
plant shardwright/layout/layout.cpp '// find_op("matmul")\npartial("sum", layout.sum);\n'
"$check" "$folder" || { echo "found violations where there are none" >&2; exit 1; }

plant shardwright/autodiff/backward.cpp '\nbuilder_.call("sum", all);\n'
plant shardwright/search/recursive.cpp 'if (node.op->name == "matmul") {}\nauto x = builder.call_all(\n    "split", {x});\n'
plant shardwright/runtime/session.cpp 'find_op("fill");\n'
if found=$("$check" "$folder"); then
  echo "found nothing where there are violations" >&2
  exit 1
fi
diff - <(cut -d';' -f1 <<<"$found") <<'END'
shardwright/autodiff/backward.cpp:2: names operator sum
shardwright/runtime/session.cpp:1: names operator fill
shardwright/search/recursive.cpp:1: names operator matmul
shardwright/search/recursive.cpp:3: names operator split
END
