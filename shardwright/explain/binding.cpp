#include "shardwright/explain/binding.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "shardwright/base/attempt.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/explain/unpriced.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/search/planning/search_for.h"

namespace shardwright {
namespace {

class Probe {
 public:
  Probe(const Judged& judged, std::vector<Tried> tried, const StepOf& step)
      : judged_(judged), tried_(std::move(tried)), step_(step) {}

  /// The leanest of the faster programs that do not fit.
  std::optional<Tried> misfit() {
    const Deadline& deadline = judged_.request.options.deadline;
    Doing doing(deadline.progress(), "what limits the plan: program", most_programs());
    for (int i = 0; i < most_programs() && !known() && !deadline.is_over(); ++i) {
      Tried* next = next_of(i % 2 == 1);  // if a neighbour is not it, perhaps another kind of plan
      if (!next) break;
      doing.tell(i);
      price(*next);
    }
    const Tried* out = known();
    return out ? std::optional(*out) : std::nullopt;
  }

  std::vector<Tried> tried() && { return std::move(tried_); }

 private:
  /// Those of small networks are quick.
  int most_programs() const {
    constexpr std::size_t few_operators = 100;
    std::size_t operators = 0;
    for (const StagePlan& stage : judged_.plan.stages) operators += stage.operators.size();
    return operators <= few_operators ? 8 : 3;
  }

  double seconds() const { return judged_.evaluation.estimate.step_seconds(); }

  const Tried* known() const {
    const Tried* out = nullptr;
    for (const Tried& t : tried_)
      if (t.fate == Fate::misfit && t.by == KnownBy::program && t.seconds < as_long * seconds() &&
          (!out || t.bytes < out->bytes))
        out = &t;
    return out;
  }

  /// What may bind, by figures the fastest, or else that which differs from the plan in fewest words, then the leanest.
  Tried* next_of(bool is_fastest) {
    const auto taken = std::ranges::find(tried_, Fate::taken, &Tried::fate);
    std::optional<Constraints> plan;
    if (taken != tried_.end() && taken->words.empty()) plan = taken->structure;
    Tried* out = nullptr;
    std::pair<int, double> least;
    for (Tried& t : tried_) {
      if (!may_bind(t, seconds())) continue;
      const int words = plan && !is_fastest ? words_between(*plan, t.structure) : 0;
      const std::pair place{words, is_fastest ? least_of(t) : t.bytes};
      if (out && place >= least) continue;
      out = &t;
      least = place;
    }
    return out;
  }

  static int words_between(const Constraints& a, const Constraints& b) {
    return static_cast<int>(std::ranges::count_if(constraint_words(), [&](const ConstraintWord& word) {
      return word.print(a, word.name) != word.print(b, word.name);
    }));
  }

  void price(Tried& t) {
    const auto e = attempt(t.why, [&] { return evaluation_of(t.structure); });
    if (!e) {
      t.fate = Fate::impossible;
      return;
    }
    t.by = KnownBy::program;
    t.seconds = e->estimate.step_seconds();
    t.bytes = static_cast<double>(e->estimate.arena_bytes);
    if (e->fits()) t.fate = t.seconds < seconds() ? Fate::open : Fate::slower;
  }

  /// As its flag (automatic::said) would have it, whatever memory there is.
  Evaluation evaluation_of(const Constraints& structure) const {
    PlanRequest asked = automatic::with_structure(judged_.request, structure);
    asked.stock = nullptr;
    asked.options.memory_cap = std::numeric_limits<std::int64_t>::max();
    if (automatic::said(structure).flag == "--set") {
      asked.parallel = Parallel::semi_auto_parallel;
    } else {
      asked.is_set = false;
      asked.auto_pipeline.reset();
      if (automatic::stages_of(structure) == 1) asked.constraints.schedule.reset();
      if (automatic::shards_of(structure) == 1) asked.constraints.sequence_parallel.reset();
    }
    const Plan plan =
        asked.is_set ? make_plan(step_(structure.micro_batches.value_or(1)), asked) : make_plan(step_, asked);
    return evaluate(compile_pipeline(step_(plan.settings.pipelining.batch_parts()), plan,
                                     {.formats = asked.formats, .verifies = false}),
                    plan.cluster,
                    {.memory_cap = judged_.evaluation.cap_bytes, .framework = plan.settings.framework});
  }

  const Judged& judged_;
  std::vector<Tried> tried_;
  const StepOf& step_;
};

/// `annotations of relu1, dense1.matmul and 3 more`
std::string annotations_text(const Constraints& c) {
  constexpr std::size_t most_named = 3;
  std::vector<std::string> names;
  for (const auto& [name, said] : c.tensors) names.push_back(name);
  for (const auto& [name, stage] : c.stages) names.push_back(name);
  if (c.dataset) names.emplace_back("the dataset");
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), most_named);
  names.resize(names.size() - more);
  return fmt::format("annotations of {}{}", join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::string_view name_of(Limit limit) {
  constexpr std::array<std::string_view, 3> names{"time", "memory", "fixed"};
  return names[static_cast<std::size_t>(limit)];
}

std::string fixed_text(const PlanRequest& request) {
  std::vector<std::string> out;
  if (request.parallel != Parallel::auto_parallel && !request.is_set && request.devices > 1)
    out.push_back(fmt::format("--parallel {}", name_of(request.parallel)));
  Constraints annotated = request.is_set ? request.constraints : fixed_by(request), fixed;
  for (const ConstraintWord& word : constraint_words())
    if (word.is_chosen) word.copy(fixed, annotated, word.name);
  fixed.operators = annotated.operators;
  if (request.is_set) fixed.stages = std::exchange(annotated.stages, {});
  for (const std::string& text : {to_text(fixed), annotations_text(annotated)})
    if (!text.empty()) out.push_back(text);
  return join(out, "; ");
}

Bound bound_of(const Judged& judged, std::vector<Tried> tried, const StepOf& step) {
  if (const auto& operators = judged.request.constraints.operators; !operators.empty())
    for (Tried& t : tried) t.structure.operators = operators;  // each structure has them
  Binding out{.by = Limit::memory, .misfit = {}, .fixed = fixed_text(judged.request), .other = {}};
  if (!judged.evaluation.fits()) return {std::move(out), std::move(tried)};
  Probe probe(judged, std::move(tried), step);
  out.misfit = probe.misfit();
  if (!out.misfit) out.by = out.fixed.empty() ? Limit::time : Limit::fixed;
  // Other stages are what is fixed otherwise; parts side by side are beside it.
  if (out.by == Limit::fixed && judged.plan.suggestion.starts_with("pp=")) out.other = judged.plan.suggestion;
  return {std::move(out), std::move(probe).tried()};
}

}  // namespace shardwright
