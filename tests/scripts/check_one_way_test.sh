#!/usr/bin/env bash
# check_one_way.sh finds what is planted, at its line, and nothing else.
set -euo pipefail
check=$(realpath "$(dirname "$0")/../../scripts/check_one_way.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

plant() { mkdir -p "$(dirname "$folder/$1")" && printf '%b' "$2" >"$folder/$1"; }
plant python/core/a.cpp '#include <a>\n'
plant shardwright/runtime/prepare.cpp 'x = compile_pipeline(graph, plan);\n'
plant shardwright/runtime/start.cpp '  return Session(std::move(program).release(), options);\n'
plant shardwright/frontend/a.cpp '  Session session = start_threads(program);\n  // Session(program) is what tests do\n  f(Session& session);\n'
plant shardwright/cli/programs.cpp 'DeviceKind device_of() { return default_devices(); }\n'
"$check" "$folder" || { echo "found violations where there are none" >&2; exit 1; }

plant shardwright/frontend/b.cpp '\n  Session session(compile_pipeline(graph, plan));\n'
plant shardwright/cli/b.cpp '  auto a = std::make_unique<Session>(program);\n'
plant python/core/b.cpp '\n\n  request.formats = default_devices().formats;\n  return Session(program);\n'
if found=$("$check" "$folder" 2>/dev/null); then
  echo "found nothing where there are violations" >&2
  exit 1
fi
diff - <(cut -d: -f1,2 <<<"$found") <<'END'
python/core/b.cpp:4
shardwright/cli/b.cpp:1
shardwright/frontend/b.cpp:2
shardwright/frontend/b.cpp:2
python/core/b.cpp:3
END
