// Exhaustive search: every combination of legal strategies, each priced as a whole by lowering it and timing the
// program. The oracle of the other searches, on graphs that are small enough.
//
//   best = argmin over (s_1, ..., s_n) in C_1 x ... x C_n of price(s_1, ..., s_n)
//
// C_i are the legal strategies of node i without partial operands, with fully_use_devices only those that use all
// devices or none; a fixed node has one. With elementwise_follow combinations that redistribute a point-wise
// operator's result are left out. Ties go to the first in the order of the candidates.
// Complexity: product of |C_i| lowerings; refused above `most_plans`.

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/progress.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/contradictions.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright::search {
namespace {

constexpr double most_plans = 20000;

struct Space {
  std::vector<int> nodes;                         // forward compute nodes
  std::vector<std::vector<Strategy>> candidates;  // of each of them

  double size() const {
    double n = 1;
    for (const auto& c : candidates) n *= static_cast<double>(c.size());
    return n;
  }
};

Space space_of(const Problem& problem, const SearchOptions& options) {
  const Graph& graph = *problem.graph;
  Space out;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_forward_operator(node)) continue;
    out.nodes.push_back(id.index);
    out.candidates.push_back(
        space::candidates_of(problem, problem.fixed, id, problem.calls->rule(id), options));
  }
  return out;
}

class Exhaustive {
 public:
  Exhaustive(const Problem& problem, const SearchOptions& options, Space space)
      : problem_(problem),
        options_(options),
        space_(std::move(space)),
        current_(problem.graph->nodes.size()),
        choice_(space_.nodes.size(), 0) {}

  SearchResult run() {
    Doing doing(options_.deadline.progress(), "plan", static_cast<std::int64_t>(space_.size()));
    std::int64_t looked_at = 0;
    do {
      for (std::size_t i = 0; i < choice_.size(); ++i)
        current_[at(space_.nodes[i])] = &space_.candidates[i][choice_[i]];
      if (is_wanted()) compare();
      doing.tell(++looked_at, [&] { return best_text(); });
    } while (advance());
    if (compared_ == 0)
      return {.status = SearchStatus::infeasible,
              .violation = "every combination redistributes the result of a point-wise operator"};
    return result();
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  bool is_wanted() const {
    return !options_.elementwise_follow ||
           !unfollowed(problem_, [&](NodeId id) { return current_[at(id.index)]; });
  }

  void compare() {
    SearchResult tried;
    tried.choices.resize(current_.size());
    for (int n : space_.nodes) tried.choices[at(n)].strategy = *current_[at(n)];
    const Evaluation judged = problem_.judge->evaluate(tried);
    const double seconds = judged.estimate.step_seconds();
    if (compared_ == 0 || is_better(judged, least_)) {
      least_ = judged;
      best_ = choice_;
    }
    unfit_ += !judged.fits();
    if (judged.fits()) most_ = std::max(most_, seconds);
    ++compared_;
  }

  std::string best_text() const {
    return compared_ > 0 && least_.fits() ? fmt::format("best step {:.4g} s", least_.estimate.step_seconds())
                                          : "";
  }

  /// To the next combination, as an odometer; false behind the last.
  bool advance() {
    std::size_t i = choice_.size();
    while (i > 0 && ++choice_[i - 1] == space_.candidates[i - 1].size()) choice_[--i] = 0;
    return i > 0;
  }

  SearchResult result() const {
    SearchResult out{.status = SearchStatus::optimal};
    const double seconds = least_.estimate.step_seconds();
    if (least_.fits()) out.lower_bound_seconds = seconds;
    out.compared = fmt::format("compared {} plans{}: {:.3g} to {:.3g} s a step", compared_,
                               unfit_ ? fmt::format(", of which {} do not fit", unfit_) : "", seconds,
                               std::max(most_, seconds));
    out.choices.resize(current_.size());
    for (std::size_t i = 0; i < space_.nodes.size(); ++i) {
      const std::size_t n = at(space_.nodes[i]);
      const bool is_fixed = problem_.fixed.strategies[n].has_value();
      out.choices[n] = {space_.candidates[i][best_[i]],
                        is_fixed ? problem_.fixed.reasons[n] : "part of the cheapest of all combinations"};
    }
    return out;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Space space_;
  std::vector<const Strategy*> current_;  // per node of the graph
  std::vector<std::size_t> choice_, best_;
  Evaluation least_;  // of `best_`
  double most_ = 0;   // seconds, of those that fit
  int compared_ = 0, unfit_ = 0;
};

SearchResult run(const Problem& problem, const SearchOptions& options) {
  Space space = space_of(problem, options);
  if (space.size() > most_plans)
    return {.status = SearchStatus::infeasible,
            .violation = fmt::format(
                "exhaustive search would compare {:.3g} plans, at most {:.0f} are sensible; annotate "
                "operators or use another search",
                space.size(), most_plans)};
  return Exhaustive(problem, options, std::move(space)).run();
}

}  // namespace

std::vector<Searcher> exhaustive() {
  return {{.name = "exhaustive",
           .aliases = {},
           .doc = "compare every combination of strategies (small networks)",
           .heeds = {Setting::fully_use_devices, Setting::elementwise_follow},
           .preference = 3,
           .run = run}};
}

}  // namespace shardwright::search
