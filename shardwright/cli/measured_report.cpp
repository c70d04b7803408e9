#include "shardwright/cli/measured_report.h"

#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/plan/json_text.h"

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

}  // namespace

Flag measured_flag() {
  return {"--measured", "FILE", "compare with a step measured elsewhere: a file with rows of term,seconds",
          ""};
}

void report_measured(const Arguments& arguments, const PlannedModel& made, Terminal& terminal) {
  const std::string path = arguments.text("--measured");
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const std::vector<MeasuredTerm> measured = parse_measured(read_text(path), path);
  const Pipeline pipeline = compiled(arguments, made.model.graph, made.plan);
  const Evaluation e = evaluate(pipeline, made.plan.cluster, {.framework = made.plan.settings.framework});
  const MeasuredStep step = beside_plan(measured, e.estimate, predicted(pipeline, made.plan.cluster), path);
  terminal.out << (is_json ? step_json(step).dump() + "\n" : to_text(step));
}

}  // namespace shardwright
