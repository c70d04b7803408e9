#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <regex>

#include "shardwright/base/text.h"
#include "shardwright/cli/measured_report.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/record_report.h"
#include "shardwright/cli/why_not_report.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/frontend/explanation.h"
#include "shardwright/frontend/report.h"

namespace shardwright::verbs {
namespace {

using Json = nlohmann::ordered_json;

Json candidate_json(const Explanation& e, const Candidate& c, const Mesh& mesh) {
  Json strategy = Json::object(), in = Json::array();
  for (std::size_t l = 0; l < e.rule.loops.size(); ++l)
    for (int a : c.strategy.loops[l])
      for (std::string_view axis : split(mesh.axes[static_cast<std::size_t>(a)].name, '/'))
        strategy[e.rule.loops[l].name].push_back(axis);
  Json grains = Json::object(), by_shares = Json::array();
  for (std::size_t l = 0; l < e.rule.loops.size(); ++l) {
    if (const std::int64_t grain = c.strategy.loops[l].grain(); grain > 0)
      grains[e.rule.loops[l].name] = grain;
    if (c.strategy.loops[l].is_by_shares()) by_shares.push_back(e.rule.loops[l].name);
  }
  for (const RuleTensor& tensor : e.rule.operands) in.push_back(integers_of(tensor, c.strategy, mesh));
  Json out{{"strategy", strategy}, {"in", in}};
  if (!grains.empty()) out["grains"] = grains;
  if (!by_shares.empty()) out["by_shares"] = by_shares;
  out.update({{"compute_seconds", c.cost.compute_seconds},
              {"communication_seconds", c.cost.communication_seconds},
              {"redistribution_seconds", c.cost.redistribution_seconds},
              {"seconds", c.cost.seconds()},
              {"memory_bytes", {{"weights", c.cost.weight_bytes}, {"results", c.cost.kept_bytes}}}});
  return out;
}

Json explanation_json(const Explanation& e, const Plan& plan) {
  Json out{{"operator", e.planned.name},          {"kind", e.planned.kind}, {"fixed", e.planned.is_fixed},
           {"reason", to_text(e.planned.reason)}, {"choice", e.choice},     {"data_parallel", nullptr}};
  if (e.data_parallel) out["data_parallel"] = *e.data_parallel;
  for (const Candidate& c : e.candidates)
    out["candidates"].push_back(candidate_json(e, c, e.meshes[static_cast<std::size_t>(c.strategy.mesh)]));
  out["left_out"] = e.left_out;
  out["why"] = join(why(e, plan), "; ");
  return out;
}

Json heavy_json(const Heavy& h) {
  const Explanation& e = h.explanation;
  const auto candidate = [&](const Candidate& c) {
    return candidate_json(e, c, e.meshes[static_cast<std::size_t>(c.strategy.mesh)]);
  };
  return {{"operators", h.row.name},
          {"count", h.row.members.size()},
          {"time_share", h.time_share},
          {"memory_share", h.memory_share},
          {"each", candidate(e.candidates[e.choice])},
          {"second_best", h.other ? candidate(e.candidates[*h.other]) : Json(nullptr)}};
}

/// The table's rows: sums over all operators of a row, collectives and reason of the one in its middle.
Json rows_json(const StagePlan& plan, const std::vector<OperatorShare>& shares) {
  Json out = Json::array();
  for (const FoldedName& row : table_rows(plan, shares)) {
    double seconds = 0;
    std::int64_t bytes = 0;
    for (std::size_t i : row.members) {
      seconds += shares[i].cost.seconds();
      bytes += shares[i].cost.bytes();
    }
    const std::size_t typical = row.members[row.members.size() / 2];
    Json collectives = Json::array();
    for (const CollectiveTraffic& t : shares[typical].cost.traffic)
      collectives.push_back({{"kind", name_of(t.kind)},
                             {"axes", t.axes},
                             {"phase", name_of(t.phase)},
                             {"count", t.count},
                             {"bytes", t.bytes}});
    out.push_back({{"operators", row.name},
                   {"count", row.members.size()},
                   {"seconds", seconds},
                   {"memory_bytes", bytes},
                   {"collectives", collectives},
                   {"reason", to_text(plan.operators[typical].reason)}});
  }
  return out;
}

/// The plan as `plan` prints it, then where most goes.
void explain_all(const Arguments& arguments, const PlannedModel& made, Terminal& terminal) {
  const Estimate estimate = report(arguments, made.model, made.plan, terminal).estimate;
  PlannedStages parts = apply(made.plan, made.model.graph);
  for (std::size_t s = 0; s < parts.stages.size(); ++s) {
    Explainer explainer(std::move(parts.stages[s]), made.plan, s);
    const StageSeconds& seconds = estimate.operators[s];
    const std::vector<OperatorShare> shares = explainer.shares(seconds);
    const std::vector<Heavy> heavy = heaviest(explainer, shares);
    if (!arguments.is_on("--json")) {
      if (parts.stages.size() > 1) terminal.out << fmt::format("stage {}\n", s);
      terminal.out << heaviest_table(heavy);
      continue;
    }
    Json list = Json::array();
    for (const Heavy& h : heavy) list.push_back(heavy_json(h));
    Json out{{"rows", rows_json(explainer.stage(), shares)},
             {"other_seconds", seconds.others.all()},
             {"heaviest", list}};
    if (parts.stages.size() > 1) out["stage"] = s;
    terminal.out << out.dump() << "\n";
  }
}

/// The stage that has the operator called `name`, if one has.
std::optional<std::size_t> stage_with(const Plan& plan, const std::string& name) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators)
      if (op.name == name) return s;
  return std::nullopt;
}

/// A row of the table, `layers.0-79.norm1`, stands for its first operator.
std::string operator_of_row(const std::string& name) {
  static const std::regex numbers("([0-9]+)[-,](?:[0-9,-]|,[.]{3})*");
  return std::regex_replace(name, numbers, "$1");
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (asks_for_record(arguments)) {
    report_record(arguments, terminal);
    return 0;
  }
  require_page_writable(arguments);
  const PlannedModel made = planned_model(arguments.positionals[0]);
  if (arguments.has("--why-not")) {
    if (arguments.positionals.size() > 1)
      throw error("--why-not is of the whole plan; leave '{}' out", arguments.positionals[1]);
    report_why_not(arguments, made, terminal);
    return 0;
  }
  if (arguments.has("--measured")) {
    if (arguments.positionals.size() > 1)
      throw error("--measured is of the whole step; leave '{}' out", arguments.positionals[1]);
    report_measured(arguments, made, terminal);
    return 0;
  }
  if (arguments.positionals.size() == 1) {
    explain_all(arguments, made, terminal);
    return 0;
  }
  const std::string word = arguments.positionals[1] == "stages" ? "pp" : arguments.positionals[1];
  const std::string name = operator_of_row(arguments.positionals[1]);
  const auto stage_of_name = stage_with(made.plan, name);
  if (!stage_of_name && has_other_values(word)) {
    report_word(arguments, word, made, terminal);
    return 0;
  }
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const std::size_t stage = stage_of_name.value_or(0);
  Explainer explainer(std::move(apply(made.plan, made.model.graph).stages[stage]), made.plan, stage);
  const Explanation e = explainer.explain(name);
  terminal.out << (is_json ? explanation_json(e, made.plan).dump() + "\n" : explanation_table(e, explainer));
  return 0;
}

}  // namespace

std::vector<Verb> explain() {
  std::vector<Flag> flags = why_not_flags();
  flags.push_back(measured_flag());
  flags.push_back(html_flag());
  flags.push_back({"--json", "", "one JSON document", ""});
  return {{.name = "explain",
           .doc =
               "say why a plan is what it is, and why it is not otherwise; of `record DIR`, who waited for "
               "whom when a run failed",
           .positionals = {"PLAN|record", "[OP|WORD|DIR]"},
           .flags = flags,
           .example = "shardwright explain plan.json dense1.matmul",
           .run = run}};
}

}  // namespace shardwright::verbs
