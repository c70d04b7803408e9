#!/usr/bin/env bash
# check_type_names.sh finds what is planted, at its line, and nothing else.
set -euo pipefail
check=$(realpath "$(dirname "$0")/../../scripts/check_type_names.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

plant() { mkdir -p "$(dirname "$folder/$1")" && printf '%b' "$2" >"$folder/$1"; }
plant shardwright/a.h 'namespace shardwright {\n\nstruct Move {\n};\nclass Session::Rank {\n};\n}  // namespace shardwright\n'
plant shardwright/a.cpp 'namespace shardwright {\nnamespace {\n\nstruct Move {\n};\n\n}  // namespace\n}  // namespace shardwright\n'
plant shardwright/b.h 'namespace shardwright::search {\nstruct Move {\n};\n}  // namespace shardwright::search\n'
plant shardwright/b.cpp 'namespace shardwright {\nstruct Session::Move {\n};\n}  // namespace shardwright\n'
"$check" "$folder" || { echo "found violations where there are none" >&2; exit 1; }

plant shardwright/c.h 'namespace shardwright {\n\nenum class Move { left, right };\n\n}  // namespace shardwright\n'
plant shardwright/d.cpp 'namespace shardwright::search {\nstruct Move : Step {\n};\n}  // namespace shardwright::search\n'
if found=$("$check" "$folder"); then
  echo "found nothing where there are violations" >&2
  exit 1
fi
diff - <(cut -d';' -f1 <<<"$found") <<'END'
shardwright/c.h:3: shardwright::Move is a type in shardwright/a.h:3, too
shardwright/d.cpp:2: shardwright::search::Move is a type in shardwright/b.h:2, too
END
