#include "shardwright/cli/measured_report.h"

#include <algorithm>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/recorded_file.h"

namespace shardwright {
namespace {

Json term_json(const ComparedPart& p) {
  return {{"term", p.name},
          {"planned_seconds", p.predicted_seconds},
          {"measured_seconds", p.measured_seconds},
          {"difference_seconds", p.measured_seconds - p.predicted_seconds}};
}

Json step_json(const MeasuredStep& s) {
  Json out = term_json(s.step);
  out.erase("term");
  out["parts"] = Json::array();
  for (const ComparedPart& p : s.parts) out["parts"].push_back(term_json(p));
  out["details"] = Json::array();
  for (const ComparedPart& p : s.details) out["details"].push_back(term_json(p));
  out["most"] = s.most().name;
  return out;
}

/// Of `train --trace`, or of a package's train.py.
void report_trace(const std::string& text, const std::string& path, bool is_json, const Pipeline& pipeline,
                  const Cluster& cluster, Terminal& terminal) {
  const MeasuredRanks recorded = recorded_step(text, path);
  StepComparison c;
  try {
    c = compared(pipeline, cluster, recorded);
  } catch (const Error& e) {
    throw with_context(e, path);
  }
  const auto is_exposed = [](const RecordedSpan& s) { return s.category == "exposed"; };
  const bool tells_waiting = std::ranges::any_of(
      recorded.ranks, [&](const auto& spans) { return std::ranges::any_of(spans, is_exposed); });
  if (!c.collectives.empty() && !tells_waiting)
    terminal.err << fmt::format("{}: tells of no collectives: what they take is in {}\n", path,
                                pipeline.stage_count() > 1 ? "bubble" : "other");
  terminal.out << (is_json ? json_of(c).dump() + "\n" : table_of(c));
}

}  // namespace

Flag measured_flag() {
  return {"--measured", "FILE",
          "compare with a step measured elsewhere: a file with rows of term,seconds, or the trace that an "
          "emitted package has written",
          ""};
}

void report_measured(const Arguments& arguments, const PlannedModel& made, Terminal& terminal) {
  const std::string path = arguments.text("--measured");
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const std::string text = read_text(path, most_trace_bytes);
  const Pipeline pipeline = compiled(arguments, made.model.graph, made.plan);
  if (is_trace_text(text)) return report_trace(text, path, is_json, pipeline, made.plan.cluster, terminal);
  const std::vector<MeasuredTerm> measured = parse_measured(text, path);
  const Evaluation e = evaluate(pipeline, made.plan.cluster, {.framework = made.plan.settings.framework});
  const MeasuredStep step = beside_plan(measured, e.estimate, predicted(pipeline, made.plan.cluster), path);
  terminal.out << (is_json ? step_json(step).dump() + "\n" : to_text(step));
}

}  // namespace shardwright
