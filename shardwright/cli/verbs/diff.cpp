#include <optional>
#include <ostream>

#include "shardwright/cli/difference_json.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/plan_diff.h"
#include "shardwright/frontend/step_comparison.h"
#include "shardwright/passes/compile.h"

namespace shardwright::verbs {
namespace {

/// A plan file, and what a step of it takes and learns from; nothing where its network cannot be made.
struct Side {
  std::string path;
  Plan plan;
  std::optional<Estimate> estimate = {};
  std::optional<std::int64_t> samples = {};
};

Estimate estimate_of(const PlannedModel& made, const std::string& path, const FormatsOf& formats) try {
  return evaluate(compile_pipeline(made.model.graph, made.plan, {.formats = formats}), made.plan.cluster,
                  {.framework = made.plan.settings.framework})
      .estimate;
} catch (const Error& e) {
  throw with_context(e, path);
}

Side side_of(const std::string& path, const FormatsOf& formats, Terminal& terminal) {
  Side out{.path = path, .plan = known_plan(path)};
  try {
    const PlannedModel made = planned_model(out.plan, path);
    out.samples = batch_of(made.model);
    if (out.samples) *out.samples *= made.plan.settings.pipelining.batch_parts();
    out.estimate = estimate_of(made, path, formats);
  } catch (const Error& e) {
    terminal.err << fmt::format("{}; so seconds and bytes are not compared\n", e.what());
  }
  return out;
}

void print_json(const std::vector<PlanDifference>& rows, const std::optional<StepDifference>& more,
                Terminal& terminal) {
  Json out{{"equal", rows.empty()}, {"differences", Json::array()}};
  for (const PlanDifference& d : rows)
    out["differences"].push_back({{"what", d.what}, {"a", d.a}, {"b", d.b}});
  add_difference(out, more);
  terminal.out << out.dump() << "\n";
}

int run(const Arguments& arguments, Terminal& terminal) {
  const FormatsOf formats = device_of(arguments).formats;
  Side a = side_of(arguments.positionals[0], formats, terminal),
       b = side_of(arguments.positionals[1], formats, terminal);
  const bool has_both = a.estimate && b.estimate;
  for (Side* side : {&a, &b})  // one may say what the other leaves to the model
    if (has_both) side->plan.origin.global_batch = side->samples;
  const std::vector<PlanDifference> rows = differences(a.plan, b.plan);
  if (arguments.is_on("--json")) {
    print_json(rows, has_both ? std::optional(difference(*a.estimate, *b.estimate)) : std::nullopt, terminal);
  } else if (rows.empty()) {
    terminal.out << fmt::format("{} and {} decide the same\n", a.path, b.path);
  } else {
    terminal.out << to_text(rows, a.path, b.path, rows.size());
    if (has_both) terminal.out << comparison_table(*a.estimate, a.path, *b.estimate, b.path);
  }
  return 0;
}

}  // namespace

std::vector<Verb> diff() {
  return {{.name = "diff",
           .doc = "say what two plans decide otherwise, and what the second takes more",
           .positionals = {"PLAN", "PLAN"},
           .flags = {{"--json", "", "one JSON document", ""}},
           .example = "shardwright diff a.json b.json",
           .run = run}};
}

}  // namespace shardwright::verbs
