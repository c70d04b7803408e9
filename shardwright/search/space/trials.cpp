#include "shardwright/search/space/trials.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"

namespace shardwright::space {
namespace {

/// By figures no slower than so many times the fastest: programs may tell otherwise.
constexpr double nearly = 1.15;
constexpr int most_nearly = 8;
/// Of a small network: programs, and eliminations by what they take (TableSum::work).
constexpr int most_tries = 400;
constexpr double most_work = 5e8;

/// Choices of `part` but its own, those first that by figures cost least more.
std::vector<int> others_of(const TableSum& sum, const WholePlan& plan, int part) {
  std::vector<int> out = sum.ranked(part, plan.choices);
  std::erase(out, plan.choices[at(part)]);
  return out;
}

template <class T>
void keep_first(std::vector<T>& some, std::size_t most) {
  if (some.size() > most) some.resize(most);
}

}  // namespace

WholePlan figured(const Problem& problem, const WholeSpace::OnLadder& on, std::vector<int> choices,
                  const CutWeights& weights) {
  const CutTotals totals = on.tables.totals(choices);
  return {&on, std::move(choices), weights, totals.seconds(problem.cluster->overlap), totals.memory};
}

std::vector<WholePlan> plans_at_prices(const Problem& problem, const WholeSpace::OnLadder& on,
                                       double gradients) {
  constexpr int prices = 8;
  std::vector<WholePlan> out;
  for (int i = -1; i < prices; ++i) {
    const double worth = i < 0 ? 0 : out.front().seconds / std::max(out.front().bytes, 1.0);
    const CutWeights weights{.gradients = gradients, .memory = std::ldexp(worth, 2 * i - 6)};
    out.push_back(figured(problem, on, on.tables.weighted(weights).minimum().choices, weights));
  }
  return out;
}

Trials::Trials(const Problem& problem, const SearchOptions& options, const WholeSpace& space)
    : problem_(problem),
      options_(options),
      space_(space),
      cap_(static_cast<double>(problem.judge->cap_bytes())),
      doing_(options.deadline.progress(), "trying plans") {}

void Trials::run(std::vector<WholePlan> plans) {
  require(!plans.empty(), "a search has no plan to try");
  std::ranges::stable_sort(plans, {}, &WholePlan::seconds);
  const int most = count_ + (is_large(problem_) ? 1 : most_nearly);
  for (const WholePlan& plan : plans) {
    if (has_fit() && (count_ >= most || plan.seconds > nearly * plans.front().seconds)) break;
    if (count_ == 0 || (!options_.deadline.is_over() && may_fit(plan))) try_plan(plan);
  }
  if (has_fit()) return;
  constexpr std::size_t leanest = 4;  // by figures, which err
  std::ranges::stable_sort(plans, {}, &WholePlan::bytes);
  keep_first(plans, leanest);
  for (const WholePlan& plan : plans)
    if (!has_fit()) try_plan(plan);
}

/// If memory goes with figures as it did in the last trial.
bool Trials::may_fit(const WholePlan& plan) const {
  constexpr double margin = 1.05;
  return plan.bytes * bytes_per_figure_ <= margin * cap_;
}

/// Whether it is better than all before.
bool Trials::try_plan(const WholePlan& plan) {
  const bool is_forbidden = plan.seconds >= forbidden_seconds / 2;  // only if there is nothing else
  if (is_forbidden && count_ > 0 && best_.seconds < forbidden_seconds / 2) return false;
  const std::span<const int> parts = std::span(plan.choices).first(at(plan.on->cuts.size()));
  if (!known_.emplace(plan.on, std::vector<int>(parts.begin(), parts.end())).second) return false;
  const Evaluation e = problem_.judge->evaluate(space_.unexplained(*plan.on, plan.choices));
  bytes_per_figure_ = static_cast<double>(e.estimate.arena_bytes) / std::max(plan.bytes, 1.0);
  const bool is_best = count_++ == 0 || is_better(e, of_best_);
  if (is_best) of_best_ = e, best_ = plan;
  doing_.tell(0, [&] { return tried_text(); });
  return is_best;
}

std::string Trials::tried_text() const {
  const std::string best =
      has_fit() ? fmt::format(", best step {:.4g} s", of_best_.estimate.step_seconds()) : "";
  return fmt::format("{} as programs{}", count_, best);
}

// ---- more of small networks ----

void Trials::refine() {
  constexpr std::size_t few_nodes = 100;
  if (problem_.graph->nodes.size() > few_nodes) return;
  for (const WholePlan& plan : plans_with_each_choice()) try_change(plan);
  change();
}

bool Trials::try_change(const WholePlan& plan) {
  return count_ < most_tries && !options_.deadline.is_over() && try_plan(plan);
}

/// Of one operator, and of two of which one reads what the other makes; those first that by figures cost least.
std::vector<std::vector<Trials::Choice>> Trials::choices_to_try(const TableSum& sum) const {
  std::vector<std::vector<Choice>> out;
  const int parts = best_.on->cuts.size();
  std::vector<std::vector<int>> others;
  for (int p = 0; p < parts; ++p) {
    others.push_back(others_of(sum, best_, p));
    keep_first(others.back(), 16);
    for (int c : others.back()) out.push_back({{p, c}});
  }
  for (const TableSum::Pair& pair : sum.pairs()) {
    if (pair.u >= parts || pair.v >= parts) continue;
    for (int c : others[at(pair.u)])
      for (int d : others[at(pair.v)]) out.push_back({{pair.u, c}, {pair.v, d}});
  }
  keep_first(out, at(std::min<double>(most_tries, most_work / std::max(sum.work(), 1.0))));
  return out;
}

/// The best plan with each of these, at several prices of memory, and with gradients that hide or do not.
std::vector<WholePlan> Trials::plans_with_each_choice() const {
  constexpr double never = 2 * forbidden_seconds;
  std::vector<WholePlan> out;
  const WholeSpace::OnLadder& on = *best_.on;
  const double worth = best_.seconds / std::max(best_.bytes, 1.0);
  std::set<double> hidings{1 - problem_.cluster->overlap, 1.0};
  for (const double gradients : hidings)
    for (const double memory : {0.0, worth / 4, worth, worth * 4}) {
      const CutWeights weights{.gradients = gradients, .memory = memory};
      const TableSum sum = on.tables.weighted(weights);
      for (const std::vector<Choice>& fixed : choices_to_try(sum)) {
        if (options_.deadline.is_over()) break;
        TableSum with_choice = sum;
        for (const auto& [v, choice] : fixed)
          for (int other = 0; other < sum.choices_of(v); ++other)
            if (other != choice) with_choice.single(v)[at(other)] += never;
        out.push_back(figured(problem_, on, with_choice.minimum().choices, weights));
      }
    }
  std::ranges::stable_sort(out, {}, &WholePlan::seconds);
  return out;
}

/// What differs from the best, as long as that is better.
void Trials::change() {
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    for (const WholePlan& next : changes())
      if ((goes_on = try_change(next))) break;
  }
}

std::vector<WholePlan> Trials::changes() const {
  std::vector<WholePlan> out;
  const WholeSpace::OnLadder& on = *best_.on;
  for (const std::vector<Choice>& fixed : choices_to_try(on.tables.weighted(best_.weights))) {
    std::vector<int> choices = best_.choices;
    for (const auto& [v, choice] : fixed) choices[at(v)] = choice;
    out.push_back(figured(problem_, on, on.tables.with_best_shared(std::move(choices)), best_.weights));
  }
  if (has_fit())
    std::ranges::stable_sort(out, {}, &WholePlan::seconds);
  else
    std::ranges::stable_sort(out, {}, &WholePlan::bytes);
  return out;
}

}  // namespace shardwright::space
