#include "shardwright/search/dynamic/described_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/search/dynamic/described_space.h"
#include "shardwright/search/dynamic/fronts.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/space/candidates.h"
#include "shardwright/search/space/cuts.h"
#include "shardwright/search/space/told.h"

namespace shardwright::dynamic {
namespace {

using space::TableSum;

constexpr int most_prices = 40;  // of a byte, each twice that before it

struct Found {
  std::vector<int> choices;
  double cost = 0, bytes = 0;
  bool is_proven = false;

  /// It moves what must not.
  bool is_forbidden() const { return cost >= forbidden_cost / 2; }
};

/// The cheaper of two that fit, else that of fewer bytes.
bool is_better(const Found& a, const Found& b, double cap) {
  if ((a.bytes <= cap) != (b.bytes <= cap)) return a.bytes <= cap;
  return a.bytes <= cap ? a.cost < b.cost : a.bytes < b.bytes;
}

class Described {
 public:
  /// The cheapest is sought until `deadline`, what fits within a limit of bytes until that of `options`.
  Described(const Problem& problem, const SearchOptions& options, const DescribedSpace& space,
            const Deadline& deadline)
      : problem_(problem), options_(options), space_(space), at_prices_(most_prices) {
    const TableSum::Minimum least = space_.cost().minimum(deadline);
    free_ = found(least.choices, least.is_proven && space_.is_exact());
  }

  /// The cheapest, whatever bytes it takes.
  const Found& cheapest() const { return free_; }

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
    out = found(sum.minimum(options_.deadline).choices, false);
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
    if (options_.deadline.is_over()) return of_fewest_bytes(cap);
    at_price(last);
    std::vector<Found> all{free_};
    for (const auto& known : at_prices_)
      if (known) all.push_back(*known);
    const ParetoSet set =
        pareto_set(space_.cost(), space_.bytes(),
                   {.most_points = 32, .choices = seen_in(all), .deadline = options_.deadline});
    for (const ParetoPlan& plan : set.plans) all.push_back(found(plan.choices, false));
    return *std::ranges::min_element(all,
                                     [cap](const Found& a, const Found& b) { return is_better(a, b, cap); });
  }

  /// Time is over: the best of what is known, and of what takes the fewest bytes of each.
  Found of_fewest_bytes(double cap) const {
    std::vector<int> fewest = free_.choices;
    for (std::size_t p = 0; p < space_.bytes().size(); ++p) {
      const std::vector<double>& bytes = space_.bytes()[p];
      const int least = static_cast<int>(std::ranges::min_element(bytes) - bytes.begin());
      if (bytes[at(least)] < bytes[at(fewest[p])]) fewest[p] = least;
    }
    Found out = free_;
    for (const auto& known : at_prices_)
      if (known && is_better(*known, out, cap)) out = *known;
    const Found sparing = found(std::move(fewest), false);
    return !sparing.is_forbidden() && is_better(sparing, out, cap) ? sparing : out;
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
        "{} operators, {} strategies{}{}; cost {} x {:.0f} B touched + {} x ({:.0f} B sent forward "
        "+ {} x {:.0f} B backward) = {:.0f}",
        space_.cuts().size(), strategies, found.is_proven ? "" : ", not all of them exactly",
        options_.deadline.is_over() ? " (time is over)" : "", w.alpha, all.computation, w.beta, all.forward,
        w.gamma, all.backward, w.of(all));
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const DescribedSpace& space_;
  Found free_;                                   // whatever bytes it takes
  std::vector<std::optional<Found>> at_prices_;  // of those that were asked for
};

/// A space, and what is searched in it.
struct Searched {
  Searched(const Problem& problem, const SearchOptions& options, const Extent& extent)
      : space(problem, options, extent) {
    if (space.is_complete()) search.emplace(problem, options, space, extent.deadline);
  }
  double cost() const { return search->cheapest().cost; }

  const DescribedSpace space;
  std::optional<Described> search;  // nothing: time was over
};

/// The described system takes each layer for itself: so many more choices, and never dearer. But where eliminations do not
/// go through, what is alike in all layers may be found better, and is found much sooner: so that comes first.
class Layers {
 public:
  Layers(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        alike_(std::make_unique<Searched>(problem, options,
                                          Extent{.folds = true, .deadline = options.deadline})) {
    if (!options.deadline.is_over()) return;
    // Of few strategies there is a plan at once; if it is none, the plan comes before the time.
    auto some = std::make_unique<Searched>(problem, options, Extent{.folds = true, .most_strategies = 8});
    if (!alike_->search || some->cost() < alike_->cost()) alike_ = std::move(some);
    if (alike_->search->cheapest().is_forbidden())
      alike_ = std::make_unique<Searched>(problem, options, Extent{.folds = true});
  }

  struct Best {
    const Described* in;
    Found found;
    SearchResult told() const { return in->told(found); }
  };

  /// The cheapest of at most `cap` bytes, else that of fewest.
  Best best(double cap) {
    Best alike{&*alike_->search, alike_->search->best(cap)};
    if (!space::are_layers_folded(options_) && !each_ && !options_.deadline.is_over())
      each_ = std::make_unique<Searched>(problem_, options_, Extent{.deadline = options_.deadline});
    if (!each_ || !each_->search) return alike;
    Best each{&*each_->search, each_->search->best(cap)};
    return !each.found.is_proven && is_better(alike.found, each.found, cap) ? alike : each;
  }

 private:
  const Problem& problem_;
  const SearchOptions& options_;
  std::unique_ptr<Searched> alike_, each_;  // each_: nothing before it is asked for, and if time is over
};

/// Nothing: of some strategies of each none follow.
std::optional<SearchResult> plan_of(const Problem& problem, const SearchOptions& options) {
  Layers layers(problem, options);
  // Programs hold more than the described system counts, gradients and states: the limit is lowered by as much.
  constexpr int most_tries = 5;
  const auto limit = static_cast<double>(problem.judge->cap_bytes());
  double cap = limit, least_bytes = std::numeric_limits<double>::infinity();
  SearchResult least;
  for (int i = 0; i <= most_tries; ++i) {
    const Layers::Best best = layers.best(cap);
    if (options.approximates && best.found.is_forbidden()) return std::nullopt;
    SearchResult out = best.told();
    if (options.deadline.is_over() && i == 0) return out;
    const Evaluation e = problem.judge->evaluate(out);
    if (e.fits()) return out;
    const auto bytes = static_cast<double>(e.estimate.arena_bytes);
    if (bytes < least_bytes) least = std::move(out), least_bytes = bytes;
    if (options.deadline.is_over()) break;
    cap *= 0.98 * std::min(1.0, limit / bytes);
  }
  return least;
}

}  // namespace

SearchResult described_plan(const Problem& problem, const SearchOptions& options) {
  return space::among_some_or_all(options, [&](const SearchOptions& some) { return plan_of(problem, some); });
}

}  // namespace shardwright::dynamic
