#include "shardwright/explain/why_not.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "shardwright/annotations/operator_splits.h"
#include "shardwright/annotations/patterns.h"
#include "shardwright/base/attempt.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/decided.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/search/planning/settings.h"
#include "shardwright/search/planning/stage_cut.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

using Stages = std::map<std::string, int>;  // of operators and modules, by name

// ---- what is asked ----

/// Throws: Error that names two of the words of `c` which exclude each other.
void check_consistent(const Constraints& c) {
  const auto is_one = [&](std::string_view degree) { return c.degrees.said(degree) == 1; };
  if (c.schedule && is_one("pp"))
    throw error("schedule={} orders the micro-batches of several stages, but pp=1", name_of(*c.schedule));
  if (c.sequence_parallel.value_or(false) && is_one("tp"))
    throw error("sequence_parallel=1 splits over tp, but tp=1");
  for (const auto& [name, split] : c.operators)
    for (const auto& [loop, degrees] : split)
      for (const std::string& degree : degrees)
        if (is_one(degree))
          throw error("{}={} splits over {}, but {}=1", name, shardwright::to_text(split), degree, degree);
  if (!c.stages.empty() && c.recompute.value_or(Again{}).layers)
    throw error("recompute={} is chosen with the cut into stages, but {}=stage {} says where that is",
                constraint_word("recompute").print(c, "recompute"), c.stages.begin()->first,
                c.stages.begin()->second);
}

/// Throws: Error if it cannot be so of the plan's batch.
void check_batch(const Constraints& c, const Constraints& decided) {
  if (c.global_batch && decided.global_batch && c.global_batch != decided.global_batch)
    throw error("global_batch={} but the plan is for {} samples; plan again, with --global-batch",
                *c.global_batch, *decided.global_batch);
  const auto data = c.degrees.said("dp");
  if (!data || !c.micro_batch || !c.micro_batches || !decided.global_batch) return;
  const int parts = c.interleave.value_or(decided.interleave.value_or(1));
  const std::int64_t product = *data * *c.micro_batch * *c.micro_batches * parts;
  if (product != *decided.global_batch)
    throw error("dp={}, micro_batch={} and micro_batches={}{} are {} samples but the batch has {}", *data,
                *c.micro_batch, *c.micro_batches, parts > 1 ? fmt::format(", each in {} parts,", parts) : "",
                product, *decided.global_batch);
}

/// Parts of a pipeline as `c` has them.
int parts_of(const Constraints& c) { return automatic::pipelining_of(c).parts(); }

void check_stages(const Graph& graph, const Stages& stages, const Constraints& c, const Constraints& all) {
  check_stage_names(graph, stages);
  for (const auto& [name, stage] : stages)
    if (stage >= parts_of(all))
      throw error("'{}' is in stage {} but {}", name, stage,
                  c.degrees.said("pp")
                      ? fmt::format("there are {}, from stage 0 on", parts_of(all))
                      : fmt::format("the plan has {}, from stage 0 on; say pp, too", parts_of(all)));
}

// ---- whether the plan has it ----

bool is_of_structure(const ConstraintWord& word) {
  return word.is_chosen || word.name == "global_batch" || word.name == "batch_shares";
}

bool has_words(const Constraints& asked, const Constraints& decided) {
  return std::ranges::all_of(constraint_words(), [&](const ConstraintWord& word) {
    const std::string value = word.print(asked, word.name);
    return value.empty() || !is_of_structure(word) || value == word.print(decided, word.name);
  });
}

/// What neither degrees nor stages say.
bool has_rest(Constraints asked, const Plan& plan) {
  if (splits_tensors(asked)) return false;
  for (const ConstraintWord& word : constraint_words())
    if (is_of_structure(word)) word.open(asked);
  asked.stages.clear();
  const Constraints has = constraints_of(plan.settings);
  return settings_of(merged(has, asked)) == settings_of(has) &&
         merged(has, asked).fusion_numbers == has.fusion_numbers;
}

/// As constraints say it, over degrees that are more than 1; nothing where axes are of no degree.
std::optional<LoopSplit> split_of(const PlannedOperator& op) {
  LoopSplit out;
  for (const auto& [loop, axes] : op.strategy)
    for (const std::string& axis : axes) {
      const std::string_view degree = degree_of_axis(axis);
      if (degree.empty()) return std::nullopt;
      std::vector<std::string>& by = out[loop];
      if (by.empty() || by.back() != degree) by.emplace_back(degree);
    }
  return out;
}

LoopSplit without_ones(const LoopSplit& split, const Degrees& degrees) {
  LoopSplit out;
  for (const auto& [loop, by] : split)
    for (const std::string& degree : by)
      if (degrees.of(degree) > 1) out[loop].push_back(degree);
  return out;
}

bool has_operators(const Constraints& asked, const Plan& plan, const Degrees& degrees) {
  if (asked.operators.empty()) return true;
  if (!degrees.said("tp")) return false;
  std::vector<std::string> keys, names;
  for (const auto& [key, split] : asked.operators) keys.push_back(key);
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators) names.push_back(op.name);
  const auto said = said_by(keys, names, "constraint of", "operator", false);
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators)
      if (const auto key = said.find(op.name); key != said.end())
        if (split_of(op) != without_ones(asked.operators.at(key->second), degrees)) return false;
  return true;
}

bool has_stages(const Stages& asked, const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators)
      if (const auto* mine = stage_asked_of(asked, op.name); mine && mine->second != static_cast<int>(s))
        return false;
  return true;
}

// ---- what is planned instead ----

/// All that is said of it.
void open_recompute(Constraints& c) {
  for (const char* word : {"recompute", "recompute_communication", "recompute_shard_kept"})
    constraint_word(word).open(c);
  c.recomputed.clear();
}

/// `plan` as it was asked for, as far as its file says, with its structure open.
PlanRequest opened(const Plan& plan, const WhyNotOptions& options, bool keeps_micro_batches) {
  PlanRequest out = request_of(plan);
  out.parallel = Parallel::auto_parallel;
  out.search = usual_search().name;
  for (const ConstraintWord& word : constraint_words())
    if (word.is_chosen) word.open(out.constraints);
  open_recompute(out.constraints);
  if (keeps_micro_batches) out.kept_micro_batches = plan.settings.pipelining.micro_batches;
  out.options.memory_cap = options.memory_cap;
  out.options.most_seconds = options.most_seconds;
  out.options.deadline = options.deadline;
  out.formats = options.formats;
  out.verifies = false;
  return out;
}

/// The stages that `plan` has, but for what is asked; of another number of them only these, and where the first begins.
Stages with_others(const Stages& asked, const Plan& plan, int parts) {
  Stages out = asked;
  const std::vector<PlannedOperator>& begin = plan.stages.front().operators;
  if (!begin.empty() && !stage_asked_of(asked, begin.front().name)) out.emplace(begin.front().name, 0);
  if (static_cast<int>(plan.stages.size()) != parts) return out;
  for (int s = 0; s < parts; ++s)
    for (const PlannedOperator& op : plan.stages[static_cast<std::size_t>(s)].operators)
      if (!stage_asked_of(asked, op.name)) out.emplace(op.name, s);
  return out;
}

/// What both say, with degrees for as many devices as there are, if dp may be otherwise.
Constraints for_devices(const Constraints& asked, Constraints all, int devices) {
  const int others = all.degrees.of("tp") * all.degrees.of("cp") * all.degrees.of("pp");
  if (!asked.degrees.said("dp") && all.degrees.said("dp") && devices % others == 0)
    all.degrees.set("dp", devices / others);
  if (!asked.micro_batches && all.micro_batches == 1) all.micro_batches = all.degrees.of("pp");
  return all;
}

/// `plan` with operators in other stages: split by degrees, where these are known, and operator by operator.
std::vector<PlanRequest> with_stages(const Constraints& asked, const Constraints& all, const Plan& plan,
                                     const PlanRequest& open) {
  PlanRequest base = open;
  if (!asked.recompute)
    base.constraints = merged(base.constraints, constraints_of({.recompute = plan.settings.recompute}));
  Constraints said = for_devices(asked, all, plan.devices());
  if (open.kept_micro_batches) said.micro_batches = open.kept_micro_batches;
  said.stages = parts_of(said) > 1 ? with_others(stages_by_name(asked), plan, parts_of(said)) : Stages{};
  base.constraints = merged(std::move(base.constraints), asked);
  std::vector<PlanRequest> out;
  const bool has_degrees = said.degrees.said("dp") && said.degrees.said("tp");
  for (bool by_sequence : {false, true}) {
    if (!has_degrees || said.sequence_parallel.value_or(by_sequence) != by_sequence) continue;
    if (by_sequence && said.degrees.of("tp") == 1) continue;
    Constraints one = said;
    one.sequence_parallel = by_sequence;
    out.push_back(automatic::with_structure(base, one));
  }
  if (automatic::fixes_split(asked) && out.empty())
    throw error(
        "stages and operators by name are for plans by degrees, and this one is split otherwise; say dp "
        "and tp, too");
  if (automatic::fixes_split(asked)) return out;
  out.push_back(automatic::with_structure(base, said));
  out.back().is_set = false;
  out.back().search = splitting_search().name;
  out.back().constraints.operators.clear();
  return out;
}

bool split_alike(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.stages, b.stages, [](const StagePlan& x, const StagePlan& y) {
    return std::ranges::equal(x.operators, y.operators,
                              [](const auto& p, const auto& q) { return decide_alike(p, q); });
  });
}

/// Whether operators are split as the degrees of `decided` say, all of them.
bool is_by_degrees(const Plan& plan, const Constraints& decided, const StepOf& step,
                   const PlanRequest& open) {
  std::string no;  // degrees would not split it so
  return std::ranges::any_of(with_stages({}, decided, plan, open), [&](const PlanRequest& request) {
    const auto by_degrees =
        request.is_set ? attempt(no, [&] { return make_plan(step, request); }) : std::nullopt;
    return by_degrees && split_alike(*by_degrees, plan);
  });
}

/// The best plan for one of `requests`; why there is none, if there is none.
void solve(WhyNot& out, const std::vector<PlanRequest>& requests, const StepOf& step,
           const WhyNotOptions& options) {
  out.status = WhyNotStatus::infeasible;
  for (const PlanRequest& request : requests) {
    if (out.found && options.deadline.is_over()) break;
    auto found = attempt(out.violation, [&] {
      Plan plan = make_plan(step, request);
      const Evaluation e = evaluation_of(plan, step(plan.settings.pipelining.batch_parts()), options);
      return Alternative{std::move(plan), e};
    });
    if (found && (!out.found || is_better(found->evaluation, out.found->evaluation)))
      out.found = std::move(found);
  }
  if (out.found) out.violation.clear();
  if (out.found && out.found->evaluation.fits()) out.status = WhyNotStatus::feasible;
}

}  // namespace

std::string_view name_of(WhyNotStatus status) {
  constexpr std::array<std::string_view, 3> names{"chosen", "feasible", "infeasible"};
  return names[static_cast<std::size_t>(status)];
}

Evaluation evaluation_of(const Plan& plan, const Graph& graph, const WhyNotOptions& options) {
  return evaluate(compile_pipeline(graph, plan, {.formats = options.formats, .verifies = false}),
                  plan.cluster, {.memory_cap = options.memory_cap, .framework = plan.settings.framework});
}

WhyNot why_not(const Constraints& asked, const Plan& plan, const StepOf& step, const WhyNotOptions& options) {
  const Graph graph = step(plan.settings.pipelining.batch_parts());
  const Constraints decided = decided_by(plan, options.samples), all = merged(decided, asked);
  const Stages stages = stages_by_name(asked);
  check_consistent(asked);
  check_batch(asked, decided);
  check_operators(graph, asked);
  check_stages(graph, stages, asked, all);
  WhyNot out{.planned = evaluation_of(plan, graph, options)};
  PlanRequest open = opened(plan, options, options.keeps_micro_batches || mixes_samples(graph));
  if (has_words(asked, decided) && has_operators(asked, plan, decided.degrees) && has_stages(stages, plan) &&
      has_rest(asked, plan)) {
    const bool asks_split = asked.degrees.of("dp") > 1 || asked.degrees.of("tp") > 1;
    out.is_split_otherwise = asks_split && !is_by_degrees(plan, decided, step, open);
    return out;
  }
  open.constraints = merged(std::move(open.constraints), asked);
  open.constraints.global_batch.reset();  // it is the plan's
  solve(out, stages.empty() ? std::vector{open} : with_stages(asked, all, plan, open), step, options);
  if (out.found && decide_alike(out.found->plan, plan)) out = {.planned = out.planned};
  return out;
}

}  // namespace shardwright
