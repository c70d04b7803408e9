#include "shardwright/cli/plan_report.h"

#include <optional>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/standard_output.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/bound_json.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan_json.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

Json memory_json(const Estimate& e) {
  Json out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out[std::string(name_of(static_cast<MemoryKind>(k)))] = e.memory.bytes[k];
  out["arena"] = e.arena_bytes;
  for (const Estimate& stage : e.stages) out["stages"].push_back(memory_json(stage));
  return out;
}

/// Of a stage, whose bubble is what it waits for others.
Json stage_json(const Estimate& stage) {
  Json out{{"compute_seconds", stage.compute_seconds},
           {"exposed_communication_seconds", stage.exposed_communication_seconds},
           {"bubble_seconds", stage.bubble_seconds}};
  for (const MemoryConsumer& c : stage.memory.largest)
    out["largest"].push_back({{"name", c.name}, {"kind", name_of(c.kind)}, {"bytes", c.bytes}});
  return out;
}

/// The plan's document with what it is expected to take.
Json document(const Plan& plan, const Evaluation& evaluation, const BatchSize& batch) {
  const Estimate& e = evaluation.estimate;
  Json out = json_of(plan);
  out["step_seconds"] = e.step_seconds();
  out["compute_seconds"] = e.compute_seconds;
  out["communication_seconds"] = e.communication_seconds;
  out["exposed_communication_seconds"] = e.exposed_communication_seconds;
  out["tokens_per_second"] =
      batch.count > 0 ? Json(static_cast<double>(batch.count) / e.step_seconds()) : nullptr;
  out["recompute_seconds"] = e.recompute_seconds;
  out["mfu"] = e.mfu();
  out["hfu"] = e.hfu();
  const auto bound = plan.lower_bound_seconds;
  out["lower_bound_seconds"] = bound ? Json(*bound) : nullptr;
  out["gap"] = bound ? Json(e.step_seconds() / *bound - 1) : nullptr;
  out["stages"] = plan.settings.pipelining.stages;
  out["micro_batches"] = plan.settings.pipelining.micro_batches;
  out["schedule"] =
      plan.stages.size() == 1 ? Json(nullptr) : Json(name_of(plan.settings.pipelining.schedule));
  out["bubble_seconds"] = e.bubble_seconds;
  out["bubble_fraction"] = e.bubble_seconds / e.step_seconds();
  out["memory_bytes"] = memory_json(e);
  for (const Estimate& stage : stages_of(e)) out["by_stage"].push_back(stage_json(stage));
  out["fits"] = evaluation.fits();
  if (!plan.suggestion.empty()) out["suggestion"] = plan.suggestion;
  if (!plan.objective.empty()) out["objective"] = plan.objective;
  if (const auto price = plan.cluster.price_of(e.step_seconds())) out["price"] = *price;
  out["collectives_per_step"] = e.collectives;
  out["bytes_communicated_per_step"] = e.bytes_communicated;
  return out;
}

/// In a micro-batch, on each of dp; 0 where the plan is no such grid.
std::int64_t samples_of_replica(const Arguments& arguments, const Plan& plan, std::int64_t samples) {
  const Pipelining& p = plan.settings.pipelining;
  if (plan.parallel == name_of(Parallel::data_parallel))
    return samples / p.micro_batches / (plan.devices() / p.stages);
  const std::string set = arguments.has("--set") ? arguments.flags.at("--set") : plan.structure;
  if (set.empty()) return plan.devices() == 1 ? samples / p.micro_batches : 0;
  return samples / p.micro_batches / parse_constraints({"--set", set}).degrees.of("dp");
}

/// What was asked, and what of it nobody said. A micro-batch is of so many samples on each of dp, where the plan has a dp.
Json request_json(const Arguments& arguments, const Model& model, const Plan& plan, const BatchSize& batch) {
  const auto known = [](std::int64_t n) { return n > 0 ? Json(n) : Json(nullptr); };
  const Assumed assumed = assumed_in(arguments, model);
  const auto cap = memory_cap_of(arguments);
  Json out{{"global_batch", known(batch.samples)},
           {"micro_batch", known(samples_of_replica(arguments, plan, batch.samples))},
           {"sequence", batch.unit == "tokens" ? known(batch.count / batch.samples) : Json(nullptr)},
           {"precision", to_text(plan.origin.precision)},
           {"optimizer", plan.origin.optimizer.name},
           {"memory_cap", cap ? cap->bytes : usable_bytes(plan.cluster)},
           {"memory_margin", nullptr},
           {"framework", plan.settings.framework},
           {"assumed", Json::array()}};
  for (const auto& [name, is_assumed] : {std::pair("global_batch", assumed.batch),
                                         {"precision", assumed.precision},
                                         {"optimizer", assumed.optimizer},
                                         {"memory_cap", !cap}})
    if (is_assumed) out["assumed"].push_back(name);
  return out;
}

void add_remedies(Json& document, const Remedies& remedies) {
  Json& found = document["remedies"] = Json::array();
  for (const Remedy& r : remedies.found)
    found.push_back(
        {{"change", r.change}, {"step_seconds", r.step_seconds}, {"memory_bytes", r.memory_bytes}});
  if (!remedies.unasked.empty()) document["remedies_unasked"] = remedies.unasked;
}

/// Of what does not fit, after the line that says so.
std::string remedies_text(const Arguments& arguments, const Remedies& remedies) {
  std::string out;
  for (const Remedy& r : remedies.found) out += fmt::format("remedy: {}\n", text_of(r));
  if (!remedies.unasked.empty()) out += fmt::format("remedy: {}\n", unasked_text(arguments, remedies));
  return out.empty() ? "remedy: none was found\n" : out;
}

}  // namespace

ReportStyle style_of(const Arguments& arguments, const Terminal& terminal) {
  const bool is_wide = arguments.is_on("--wide");
  return {.is_wide = is_wide, .columns = is_wide ? 0 : columns_of(terminal.out)};
}

Flag wide_flag() {
  return {"--wide", "",
          "a row for each operator, lines as long as they are (else rows of kinds, cut to the terminal)", ""};
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  const TableOf& table, Terminal& terminal, const BoundOf& bound_of) {
  RemediesOf remedies = [&](const Evaluation& e) { return remedies_of(arguments, model, plan, e); };
  if (is_given_plan(arguments)) remedies = {};
  const Evaluation evaluation = [&] {
    try {
      return evaluation_of(arguments, pipeline, plan.cluster, plan.settings.framework, remedies);
    } catch (Refusal& refusal) {
      if (bound_of) refusal.tried = bound_of(refusal.evaluation).tried;
      throw;
    }
  }();
  const std::string misfit = misfit_notice(evaluation, plan.cluster);
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const auto bound = bound_of ? std::optional(bound_of(evaluation)) : std::nullopt;
  const bool tells_remedies = remedies && !evaluation.fits();
  const Remedies would_fit = tells_remedies ? remedies(evaluation) : Remedies{};
  if (is_json) {
    const BatchSize batch = batch_size_of(model.graph, plan, model.tokens);
    Json out = document(plan, evaluation, batch);
    out["request"] = request_json(arguments, model, plan, batch);
    if (!evaluation.fits()) out["excess_bytes"] = evaluation.excess_bytes();
    if (bound) add_bound(out, *bound, evaluation);
    if (tells_remedies) add_remedies(out, would_fit);
    terminal.out << out.dump() << "\n";
    terminal.err << misfit;
  } else {
    const bool tells_bound = bound && !bound->tried.empty();
    terminal.out << table(evaluation.estimate, tells_bound ? text_of(*bound, evaluation) : "") << misfit
                 << (tells_remedies ? remedies_text(arguments, would_fit) : "");
  }
  return evaluation;
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  Terminal& terminal, const BoundOf& bound_of) {
  const ReportStyle style = arguments.has("--json") ? ReportStyle{} : style_of(arguments, terminal);
  std::optional<StepReport> told;
  const auto tell = [&](const Estimate& e) -> const StepReport& {
    if (!told)
      told = step_report(model.graph, plan, e, batch_size_of(model.graph, plan, model.tokens),
                         assumed_in(arguments, model));
    return *told;
  };
  const TableOf table = [&](const Estimate& e, const std::string& binds) {
    StepReport shown = tell(e);
    for (std::string_view line : split(binds, '\n'))
      if (!line.empty()) shown.summary.emplace_back(line);
    return to_text(shown, style);
  };
  const std::string page = arguments.text("--html");
  std::optional<Bound> bound;
  const BoundOf once = [&](const Evaluation& e) { return *(bound = bound_of(e)); };
  const Evaluation out =
      report(arguments, model, plan, pipeline, table, terminal, bound_of ? once : BoundOf{});
  if (bound && bound->tried.empty()) bound.reset();
  if (!page.empty()) write_file(page, plan_page(tell(out.estimate), plan, out, bound));
  return out;
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal) {
  return report(arguments, model, plan, compile_pipeline(model.graph, plan, compile_options_of(arguments)),
                terminal);
}

std::string nearest_text(const Infeasible& e) {
  const auto* refusal = dynamic_cast<const Refusal*>(&e);
  return refusal && refusal->tried ? nearest_text(*refusal->tried) : "";
}

std::string document(const Infeasible& e) {
  Json out{{"status", "infeasible"}, {"reason", e.what()}};
  if (const auto* refusal = dynamic_cast<const Refusal*>(&e)) {
    out["binding"] = name_of(Limit::memory);
    out["excess_bytes"] = refusal->evaluation.excess_bytes();
    out["memory_bytes"] = memory_json(refusal->evaluation.estimate);
    if (refusal->remedies) add_remedies(out, *refusal->remedies);
    if (refusal->tried) add_nearest(out, *refusal->tried);
  }
  return out.dump();
}

}  // namespace shardwright
