#include <algorithm>
#include <span>

#include "shardwright/base/file.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/table.h"
#include "shardwright/frontend/timeline.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright::verbs {
namespace {

std::string share_text(double part, double whole) {
  return fmt::format("{} ({})", seconds_text(part), percent_text(part, whole));
}

/// What a step takes in all, and each stage's part of it.
std::string simulation_table(const Pipeline& pipeline, const Estimate& e, const BatchSize& batch) {
  const double step = e.step_seconds();
  std::string out = fmt::format("a step takes {}", seconds_text(step));
  if (batch.count > 0)
    out += fmt::format(", {:.4g} {} a second", static_cast<double>(batch.count) / step, batch.unit);
  out += fmt::format("\n{} of the devices' peak is used (MFU)", percent_text(e.peak_seconds, step));
  if (e.repeated_peak_seconds > 0)
    out += fmt::format(", {} with what is computed again (HFU)",
                       percent_text(e.peak_seconds + e.repeated_peak_seconds, step));
  Rows rows{{"stage", "ranks", "compute", "recompute", "exposed communication", "bubble", "memory",
             "largest at its peak"}};
  int stage = 0;
  for (const Estimate& s : stages_of(e)) {
    std::string largest;
    constexpr std::size_t told = 2;
    for (const MemoryConsumer& c : std::span(s.memory.largest).first(std::min(told, s.memory.largest.size())))
      largest += fmt::format("{}{} {}", largest.empty() ? "" : ", ", c.name, bytes_text(c.bytes));
    const int first = pipeline.first_rank(stage);
    rows.push_back({std::to_string(stage),
                    fmt::format("{}-{}", first, first + pipeline.stage(stage).rank_count() - 1),
                    share_text(s.compute_seconds, step), share_text(s.recompute_seconds, step),
                    share_text(s.exposed_communication_seconds, step), share_text(s.bubble_seconds, step),
                    bytes_text(s.arena_bytes), largest});
    ++stage;
  }
  return out + "\n" + aligned(rows, {2, 7});
}

/// A viewer opens some hundred megabytes, of which an event takes about 300 bytes.
void require_few_events(const Pipeline& pipeline) {
  constexpr std::size_t most = 2'000'000;
  if (const std::size_t count = event_count(pipeline); count > most)
    throw error(
        "--trace: a step of {} stages and {} micro-batches has {} events, at most {} are written; take fewer "
        "micro-batches or layers",
        pipeline.stage_count(), pipeline.micro_batches(), count, most);
}

int run(const Arguments& arguments, Terminal& terminal) {
  require_page_writable(arguments);
  const PlannedModel made = planned_positional(arguments,
                                               {"--json", "--html", "--trace", "--memory-cap",
                                                "--device-memory", "--memory-margin", "--verify-passes"},
                                               terminal);
  const std::string path = arguments.text("--trace");
  if (!path.empty()) require_writable(path);
  const Pipeline pipeline = compiled(arguments, made.model.graph, made.plan);
  if (!path.empty()) require_few_events(pipeline);
  if (!arguments.is_on("--json")) tell_assumed(arguments, made.model);
  const BatchSize batch = batch_size_of(made.model.graph, made.plan, made.model.tokens);
  report(
      arguments, made.model, made.plan, pipeline,
      [&](const Evaluation& e, const std::string& bound) {
        return simulation_table(pipeline, e.estimate, batch) + bound;
      },
      terminal);
  if (path.empty()) return 0;
  const StepTrace trace = simulated_trace(pipeline, made.plan.cluster);
  write_trace(path, {pipeline, made.plan.cluster, trace, {}});
  return 0;
}

}  // namespace

std::vector<Verb> simulate() {
  return {{.name = "simulate",
           .doc = "run a step by events: time, waiting and memory of each stage",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags({html_flag(),
                                    {"--json", "", "one JSON document", ""},
                                    {"--trace", "FILE", "what each stage does when, for Perfetto", ""}}),
           .example = "shardwright simulate llama2-7b --cluster a100-80g:8 --stages 4 --micro-batches 8",
           .run = run}};
}

}  // namespace shardwright::verbs
