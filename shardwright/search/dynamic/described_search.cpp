#include "shardwright/search/dynamic/described_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/search/dynamic/described_space.h"
#include "shardwright/search/dynamic/fronts.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/space/told.h"

namespace shardwright::dynamic {
namespace {

using space::TableSum;

constexpr int most_prices = 40;  // of a byte, each twice that before it

struct Found {
  std::vector<int> choices;
  double cost = 0, bytes = 0;
  bool is_proven = false;
};

/// The cheaper of two that fit, else that of fewer bytes.
bool is_better(const Found& a, const Found& b, double cap) {
  if ((a.bytes <= cap) != (b.bytes <= cap)) return a.bytes <= cap;
  return a.bytes <= cap ? a.cost < b.cost : a.bytes < b.bytes;
}

/// Some strategies of each may have none that agree with their neighbours'.
SearchOptions with_all(SearchOptions options) {
  options.approximates = false;
  return options;
}

class Described {
 public:
  Described(const Problem& problem, const SearchOptions& options, const DescribedSpace& space)
      : problem_(problem), options_(options), space_(space), at_prices_(most_prices) {
    const TableSum::Minimum least = space_.cost().minimum();
    free_ = found(least.choices, least.is_proven && space_.is_exact());
  }

  /// Every choice moves what must not.
  bool is_forbidden() const { return free_.cost >= forbidden_cost / 2; }

  /// The cheapest of at most `cap` bytes, else that of fewest.
  Found best(double cap) { return free_.bytes <= cap ? free_ : sparing(cap); }

  SearchResult told(const Found& found) const {
    space::CutProblem decided = space_.cuts();
    for (int p = 0; p < decided.size(); ++p) {
      const Strategy& s = space_.strategies(p)[at(found.choices[at(p)])];
      decided.set(p, s, space_.fixed().meshes[at(s.mesh)]);
    }
    SearchResult out = space::told(problem_, decided, space_.fixed(),
                                   [&](const space::JoinedMesh&) { return reasons(found); });
    out.compared = compared(found);
    if (options_.deadline.is_over()) out.status = SearchStatus::timeout;
    return out;
  }

 private:
  Found found(std::vector<int> choices, bool is_proven) const {
    Found out{.choices = std::move(choices), .is_proven = is_proven};
    out.cost = space_.cost().value(out.choices);
    out.bytes = space_.total_bytes(out.choices);
    return out;
  }

  /// The least where a byte costs the i-th price; kept for other limits.
  const Found& at_price(int i) {
    constexpr double least_price = 1e-3;
    std::optional<Found>& out = at_prices_[at(i)];
    if (out) return *out;
    TableSum sum = space_.cost();
    for (std::size_t p = 0; p < space_.bytes().size(); ++p)
      for (std::size_t c = 0; c < space_.bytes()[p].size(); ++c)
        sum.single(static_cast<int>(p))[c] += std::ldexp(least_price, i) * space_.bytes()[p][c];
    out = found(sum.minimum().choices, false);
    return *out;
  }

  /// Bytes fall as their price grows: from the least price whose plan fits to Pareto sets over what these plans choose.
  Found sparing(double cap) {
    int first = 0, last = most_prices - 1;
    while (first < last && !options_.deadline.is_over()) {
      const int middle = (first + last) / 2;
      if (at_price(middle).bytes <= cap)
        last = middle;
      else
        first = middle + 1;
    }
    at_price(last);
    std::vector<Found> all{free_};
    for (const auto& known : at_prices_)
      if (known) all.push_back(*known);
    const ParetoSet set =
        pareto_set(space_.cost(), space_.bytes(), {.most_points = 32, .choices = seen_in(all)});
    for (const ParetoPlan& plan : set.plans) all.push_back(found(plan.choices, false));
    return *std::ranges::min_element(all,
                                     [cap](const Found& a, const Found& b) { return is_better(a, b, cap); });
  }

  std::vector<std::vector<int>> seen_in(const std::vector<Found>& all) const {
    std::vector<std::vector<int>> out(at(space_.cost().size()));
    for (const Found& f : all)
      for (std::size_t v = 0; v < out.size(); ++v)
        if (std::ranges::find(out[v], f.choices[v]) == out[v].end()) out[v].push_back(f.choices[v]);
    return out;
  }

  std::vector<Reason> reasons(const Found& found) const {
    std::vector<Reason> out;
    for (int p = 0; p < space_.cuts().size(); ++p) {
      const DescribedCost c = space_.own_cost(p, found.choices[at(p)]);
      out.emplace_back(fmt::format("touches {:.0f} B, sends {:.0f} B forward and {:.0f} B backward",
                                   c.computation, c.forward, c.backward));
    }
    return out;
  }

  std::string compared(const Found& found) const {
    const DescribedCost all = space_.total(found.choices);
    const CostWeights& w = space_.weights();
    std::size_t strategies = 0;
    for (int p = 0; p < space_.cuts().size(); ++p) strategies += space_.strategies(p).size();
    return fmt::format(
        "{} operators, {} strategies{}; cost {} x {:.0f} B touched + {} x ({:.0f} B sent forward "
        "+ {} x {:.0f} B backward) = {:.0f}",
        space_.cuts().size(), strategies, found.is_proven ? "" : ", not all of them exactly", w.alpha,
        all.computation, w.beta, all.forward, w.gamma, all.backward, w.of(all));
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const DescribedSpace& space_;
  Found free_;                                   // whatever bytes it takes
  std::vector<std::optional<Found>> at_prices_;  // of those that were asked for
};

}  // namespace

SearchResult described_plan(const Problem& problem, const SearchOptions& options) {
  // The described system takes each layer for itself: so many more choices, and never dearer.
  const bool is_said = options.said.test(static_cast<std::size_t>(Setting::fold_layers));
  const bool folds = options.fold_layers && (!options.is_described || is_said);
  const DescribedSpace space(problem, options, folds);
  Described search(problem, options, space);
  if (options.approximates && search.is_forbidden()) return described_plan(problem, with_all(options));
  std::optional<DescribedSpace> folded;
  std::optional<Described> of_folded;
  const auto planned = [&](double cap) {
    const Found found = search.best(cap);
    if (folds || found.is_proven || options.deadline.is_over()) return search.told(found);
    // Where eliminations do not go through, what is alike in all layers may be found better.
    if (!folded) of_folded.emplace(problem, options, folded.emplace(problem, options, true));
    const Found alike = of_folded->best(cap);
    return is_better(alike, found, cap) ? of_folded->told(alike) : search.told(found);
  };
  // Programs hold more than the described system counts, gradients and states: the limit is lowered by as much.
  constexpr int most_tries = 5;
  const auto limit = static_cast<double>(problem.judge->cap_bytes());
  double cap = limit;
  SearchResult out = planned(cap), least = out;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (int i = 0; i < most_tries && !options.deadline.is_over(); ++i) {
    const Evaluation e = problem.judge->evaluate(out);
    if (e.fits()) return out;
    const auto bytes = static_cast<double>(e.estimate.arena_bytes);
    if (bytes < least_bytes) least = out, least_bytes = bytes;
    cap *= 0.98 * std::min(1.0, limit / bytes);
    out = planned(cap);
  }
  return least;
}

}  // namespace shardwright::dynamic
