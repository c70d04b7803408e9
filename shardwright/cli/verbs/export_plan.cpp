// A plan in the words of what others train with.
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/export_plan.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string to = arguments.text("--to"), path = arguments.text("-o");
  if (to.empty())
    throw error("--to says in whose words the plan is written: {}", join(written_formats(), ", "));
  written_format(to);  // there is one
  if (!path.empty()) require_writable(path);
  const PlannedModel made = planned_positional(
      arguments, {"--to", "-o", "--memory-cap", "--device-memory", "--memory-margin", "--verify-passes"},
      terminal);
  if (memory_cap_of(arguments))
    evaluation_of(arguments, compiled(arguments, made.model.graph, made.plan), made.plan.cluster,
                  made.plan.settings.framework);
  const Exported out = shardwright::export_plan(
      made.model.graph, made.plan, to,
      {.path = path, .programs = [&] { return compiled(arguments, made.model.graph, made.plan); }});
  arguments.heed("--verify-passes");
  arguments.check_heeded(terminal.err);
  for (const std::string& line : out.not_carried)
    terminal.err << fmt::format("--to {} does not carry: {}\n", to, line);
  if (path.empty())
    terminal.out << out.text;
  else
    write_file(path, out.text);
  return 0;
}

}  // namespace

std::vector<Verb> export_plan() {
  return {{.name = "export",
           .doc = "write a plan as what others train with are configured",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags({{"--to", "NAME", join(written_formats(), ", "), ""},
                                    {"-o", "FILE", "instead of standard output", ""}}),
           .example = "shardwright export plan.json --to megatron -o megatron.sh",
           .run = run}};
}

}  // namespace shardwright::verbs
