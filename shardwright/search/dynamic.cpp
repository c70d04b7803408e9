// Dynamic programming over the graph of operators (search_mode="dynamic_programming" of the described system).
//
//   minimize  sum over operators of own(s) + sum over values of move(s_producer, s_user),   bytes(s_1, ..) <= memory
//
// All strategies of each operator on meshes of few axes, each priced with what its neighbours would have to move
// (space/tables.h). Operators are eliminated: one with two neighbours becomes an edge between them, one with one neighbour
// part of it, parallel edges one, until nothing is left; then the choices are read backwards. Where the fastest may not
// fit, the tables hold Pareto sets of seconds and bytes instead of numbers (dynamic/fronts.h), so that a plan that fits is
// not lost for a faster one that does not; the plans of the last set are tried as programs.
//
// Exact by its prices where branches are in series and parallel; elsewhere the most connected operator is fixed to what
// looks best. Pareto sets are exact for operators of up to 12 strategies; of more some are left out, which is told.
// Repeated layers are one operator each. Cost: O(operators * strategies^3).
//
// With --costs symbolic the numbers are the described system's bytes instead of seconds (dynamic/described_search.h).

#include <algorithm>
#include <iterator>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/search/dynamic/described_search.h"
#include "shardwright/search/dynamic/fronts.h"
#include "shardwright/search/space/candidates.h"
#include "shardwright/search/space/trials.h"

namespace shardwright::search {
using namespace space;
namespace {

constexpr double most_work = 1e8;

class Dynamic {
 public:
  Dynamic(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), space_(problem, options, most_work) {}

  /// Nothing: of some strategies of each none follow.
  std::optional<SearchResult> run() {
    for (const auto& on : space_.ladders())
      for (double gradients : {hidden(), 1.0})
        if (plans_.empty() || !options_.deadline.is_over()) add_fastest(on, gradients);
    if (options_.approximates && moves_what_must_not()) return std::nullopt;
    if (may_exceed())
      for (const auto& on : space_.ladders()) add_sparing(on);
    Trials trials(problem_, options_, space_);
    trials.run(std::move(plans_));
    trials.refine();
    const int count = trials.count();
    SearchResult out = trials.best();
    out.compared = fmt::format("{}{}; tried {} program{}", space_.size(),
                               is_exact_ ? "" : ", not all of them exactly", count, count == 1 ? "" : "s");
    if (options_.deadline.is_over()) out.status = SearchStatus::timeout;
    return out;
  }

 private:
  using OnLadder = WholeSpace::OnLadder;

  /// Where the backward hides the reductions of gradients, only what is left of them counts.
  double hidden() const { return 1 - problem_.cluster->overlap; }

  void add(const OnLadder& on, std::vector<int> chosen, const CutWeights& weights) {
    plans_.push_back(figured(problem_, on, std::move(chosen), weights));
  }

  void add_fastest(const OnLadder& on, double gradients) {
    const CutWeights weights{.gradients = gradients};
    const TableSum::Minimum least = on.tables.weighted(weights).minimum();
    is_exact_ = is_exact_ && least.is_proven;
    add(on, least.choices, weights);
  }

  bool moves_what_must_not() const {
    return std::ranges::all_of(plans_, [](const WholePlan& p) { return p.seconds >= forbidden_seconds / 2; });
  }

  bool may_exceed() const {
    const double margin = memory_margin(problem_);
    return std::ranges::any_of(plans_, [&](const WholePlan& p) {
      return margin * p.bytes >= static_cast<double>(problem_.judge->cap_bytes());
    });
  }

  void add_sparing(const OnLadder& on) {
    std::vector<WholePlan> at_prices = plans_at_prices(problem_, on, hidden());
    if (!options_.deadline.is_over()) add_pareto(on, at_prices);
    std::ranges::move(at_prices, std::back_inserter(plans_));
  }

  void add_pareto(const OnLadder& on, const std::vector<WholePlan>& at_prices) {
    const CutWeights weights{.gradients = hidden()};
    const dynamic::ParetoSet set =
        dynamic::pareto_set(on.tables.weighted(weights), on.tables.bytes,
                            {.most_points = 32, .choices = promising(on, at_prices)});
    is_exact_ = is_exact_ && set.is_exact;
    for (const dynamic::ParetoPlan& plan : set.plans) add(on, plan.choices, weights);
  }

  /// Per variable the choices to keep where there are many: those that some price of memory makes the best, and then the
  /// next best to them.
  std::vector<std::vector<int>> promising(const OnLadder& on, const std::vector<WholePlan>& at_prices) {
    constexpr std::size_t few = 12;
    const int variables = on.tables.seconds.size();
    std::vector<std::vector<int>> out(at(variables));
    const auto keep = [&](int v, int choice) {
      if (std::ranges::find(out[at(v)], choice) == out[at(v)].end()) out[at(v)].push_back(choice);
    };
    for (const WholePlan& plan : at_prices)
      for (int v = 0; v < variables; ++v) keep(v, plan.choices[at(v)]);
    for (const WholePlan& plan : at_prices) {
      const TableSum sum = on.tables.weighted(plan.weights);
      for (int v = 0; v < variables; ++v) {
        const std::vector<int> order = sum.ranked(v, plan.choices);
        const std::size_t more = order.size() <= few ? order.size() : 3;
        for (std::size_t c = 0; c < more && (out[at(v)].size() < few || order.size() <= few); ++c)
          keep(v, order[c]);
      }
    }
    for (int v = 0; v < variables; ++v)
      is_exact_ = is_exact_ && out[at(v)].size() == at(on.tables.seconds.choices_of(v));
    return out;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const WholeSpace space_;
  std::vector<WholePlan> plans_;
  bool is_exact_ = true;
};

SearchResult run(const Problem& problem, const SearchOptions& options) {
  if (options.costs == Costs::symbolic) return dynamic::described_plan(problem, options);
  if (options.is_described)
    throw Infeasible(
        "--described: with search dynamic it needs --costs symbolic; add that, or leave --described out");
  return among_some_or_all(options, [&](const SearchOptions& some) { return Dynamic(problem, some).run(); });
}

}  // namespace

std::vector<Searcher> dynamic() {
  return {{.name = "dynamic",
           .aliases = {"dynamic_programming"},
           .doc = "eliminate operator after operator, with all strategies of its neighbours",
           .heeds = {Setting::costs, Setting::described, Setting::fold_layers, Setting::fully_use_devices,
                     Setting::elementwise_follow, Setting::approximate, Setting::approximation,
                     Setting::align_slices, Setting::slice_size, Setting::search_time},
           .preference = 4,
           .run = run}};
}

}  // namespace shardwright::search
