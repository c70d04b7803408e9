#include "shardwright/explain/other_values.h"

#include <algorithm>
#include <array>
#include <limits>

#include "shardwright/base/attempt.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/decided.h"

namespace shardwright {
namespace {

constexpr std::array<std::string_view, 9> words{"dp",
                                                "tp",
                                                "pp",
                                                "micro_batches",
                                                "zero",
                                                "recompute",
                                                "schedule",
                                                "sequence_parallel",
                                                "overlap_tensor"};

/// Powers of two that divide `n`, at most `most`.
std::vector<std::string> parts_of_number(std::int64_t n, std::int64_t most) {
  std::vector<std::string> out;
  for (std::int64_t d = 1; d <= std::min(n, most) && n % d == 0; d *= 2) out.push_back(fmt::format("{}", d));
  return out;
}

std::vector<std::string> values_of(std::string_view word, const Plan& plan, const Constraints& decided) {
  constexpr std::int64_t most_parts = 64;
  const auto kind = std::ranges::find(degree_kinds, word, &DegreeKind::name);
  if (kind != degree_kinds.end()) return parts_of_number(plan.devices(), plan.devices());
  if (word == "micro_batches")
    return parts_of_number(
        decided.global_batch.value_or(1) / decided.degrees.of("dp") / decided.interleave.value_or(1),
        most_parts);
  if (word == "zero") return {"0", "1", "2", "3"};
  if (word == "recompute") return {"none", "selected", "full"};
  if (word == "schedule") return {"1f1b", "gpipe", "interleaved:2"};
  return {"0", "1"};
}

/// Throws: Error if `word` decides nothing in such a plan.
void check_is_open(std::string_view word, const Plan& plan, const Constraints& decided) {
  if (word == "schedule" && decided.degrees.of("pp") == 1)
    throw error("schedule: the plan has one stage, in which there is no order to choose; ask for pp");
  if (word == "sequence_parallel" && decided.degrees.said("tp") == 1)
    throw error("sequence_parallel: it splits over tp, of which the plan has 1; ask for tp");
  if (values_of(word, plan, decided).size() == 1)
    throw error("{}: it can only be {} on {} device{}", word, values_of(word, plan, decided).front(),
                plan.devices(), plan.devices() == 1 ? "" : "s");
}

/// What stays beside `word`.
Constraints kept_beside(std::string_view word, Constraints decided) {
  if (std::ranges::find(degree_kinds, word, &DegreeKind::name) != degree_kinds.end()) return {};
  decided.micro_batch.reset();  // it follows
  decided.global_batch.reset();
  constraint_word(word).open(decided);
  return decided;
}

/// `plan` with nothing but the value of `word` otherwise; nothing where more follows from it.
std::optional<Plan> in_its_place(std::string_view word, const Constraints& asked, Plan plan) {
  Settings& s = plan.settings;
  constexpr int of_weights = 3;  // which then lie otherwise
  if (word == "recompute" && !asked.recompute->layers) {
    s.recompute = {.mode = asked.recompute->mode, .options = default_options(asked.recompute->mode)};
  } else if (word == "schedule" && asked.schedule->chunks == 1 && s.pipelining.schedule.chunks == 1) {
    s.pipelining.schedule = *asked.schedule;
  } else if (word == "overlap_tensor") {
    s.overlap_tensor = *asked.overlap_tensor;
  } else if (word == "zero" && std::max(s.optimizer_parallel.level, *asked.zero) < of_weights) {
    s.optimizer_parallel.level = *asked.zero;
  } else {
    return std::nullopt;
  }
  return plan;
}

WhyNot answer_of(std::string_view word, const Constraints& asked, const Plan& plan, const StepOf& step,
                 const WhyNotOptions& options) {
  std::optional<Plan> changed = in_its_place(word, asked, plan);
  if (!changed || decide_alike(*changed, plan)) return why_not(asked, plan, step, options);
  const Graph graph = step(plan.settings.pipelining.batch_parts());
  WhyNot out{.status = WhyNotStatus::infeasible, .planned = evaluation_of(plan, graph, options)};
  const auto e = attempt(out.violation, [&] { return evaluation_of(*changed, graph, options); });
  if (!e) return out;  // its stages cannot run so
  if (e->fits()) out.status = WhyNotStatus::feasible;
  out.found = Alternative{*std::move(changed), *e};
  return out;
}

/// By which they are told in order.
double seconds_of(const OtherValue& v) {
  if (v.answer.status == WhyNotStatus::chosen) return -1;
  if (v.answer.status == WhyNotStatus::infeasible) return std::numeric_limits<double>::infinity();
  return v.answer.found->evaluation.estimate.step_seconds();
}

}  // namespace

bool has_other_values(std::string_view word) { return std::ranges::find(words, word) != words.end(); }

OtherValues other_values(std::string_view word, const Plan& plan, const StepOf& step,
                         const WhyNotOptions& options) {
  const Constraints decided = decided_by(plan, options.samples);
  check_is_open(word, plan, decided);
  std::vector<std::string> values = values_of(word, plan, decided);
  const std::string own = constraint_word(word).print(decided, word);
  if (!own.empty() && std::ranges::find(values, own) == values.end()) values.push_back(own);
  OtherValues out;
  Doing doing(options.deadline.progress(), "value", static_cast<std::int64_t>(values.size()));
  for (const std::string& value : values) {
    doing.tell(&value - values.data(), [&] { return fmt::format("{}={}", word, value); });
    if (value != own && options.deadline.is_over()) {
      out.unasked.push_back(value);
      continue;
    }
    Constraints asked = kept_beside(word, decided);
    constraint_word(word).read(asked, word, {std::string(word), value});
    WhyNot answer = answer_of(word, asked, plan, step, options);
    out.told.push_back({value, std::move(asked), std::move(answer)});
  }
  std::ranges::stable_sort(out.told, {}, seconds_of);
  return out;
}

}  // namespace shardwright
