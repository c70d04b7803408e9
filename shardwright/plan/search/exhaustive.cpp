// Exhaustive search: every combination of legal strategies, each priced as a whole by lowering it and timing the
// program. The oracle of the other searches, on graphs that are small enough.
//
//   best = argmin over (s_1, ..., s_n) in C_1 x ... x C_n of price(s_1, ..., s_n)
//
// C_i are the legal strategies of node i without partial operands; a fixed node has one; with
// fully_use_devices only those that use all devices or none. Ties go to the first
// in the order of the candidates. Complexity: product of |C_i| lowerings; refused above `most_plans`.

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/problem.h"

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
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    out.nodes.push_back(id.index);
    auto& candidates = out.candidates.emplace_back();
    if (const auto& fixed = problem.constraints.strategies[static_cast<std::size_t>(id.index)]) {
      candidates.push_back(*fixed);
      continue;
    }
    const Rule rule = rule_of(graph, node);
    for (std::size_t m = 0; m < problem.constraints.meshes.size(); ++m)
      for (Strategy& s : legal_strategies(rule, problem.constraints.meshes[m], {.linear = false})) {
        if (options.fully_use_devices && !is_all_or_nothing(s, problem.constraints.meshes[m])) continue;
        s.mesh = used_axes(s).empty() ? 0 : static_cast<int>(m);
        if (m == 0 || s.mesh > 0) candidates.push_back(std::move(s));
      }
  }
  return out;
}

SearchResult run(const Problem& problem, const SearchOptions& options) {
  const Space space = space_of(problem, options);
  if (space.size() > most_plans)
    return {.status = SearchStatus::infeasible,
            .violation = fmt::format(
                "exhaustive search would compare {:.3g} plans, at most {:.0f} are sensible; annotate "
                "operators or use another search",
                space.size(), most_plans)};
  require(static_cast<bool>(problem.price), "exhaustive search needs a price");

  std::vector<Strategy> current(problem.graph->nodes.size());
  std::vector<std::size_t> choice(space.nodes.size(), 0), best;
  double least = 0, most = 0;
  int compared = 0, unfit = 0;
  for (;;) {  // an odometer over the candidates
    for (std::size_t i = 0; i < choice.size(); ++i)
      current[static_cast<std::size_t>(space.nodes[i])] = space.candidates[i][choice[i]];
    const double seconds = problem.price(current);
    if (compared == 0 || seconds < least) {
      least = seconds;
      best = choice;
    }
    if (seconds < unfit_seconds)
      most = std::max(most, seconds);
    else
      ++unfit;
    ++compared;
    std::size_t i = choice.size();
    while (i > 0 && ++choice[i - 1] == space.candidates[i - 1].size()) choice[--i] = 0;
    if (i == 0) break;
  }

  SearchResult out{.status = SearchStatus::optimal, .violation = {}, .lower_bound_seconds = least};
  out.compared = fmt::format("compared {} plans{}: {:.3g} to {:.3g} s a step", compared,
                             unfit ? fmt::format(", of which {} do not fit", unfit) : "", least, most);
  out.choices.resize(problem.graph->nodes.size());
  for (std::size_t i = 0; i < space.nodes.size(); ++i) {
    const auto n = static_cast<std::size_t>(space.nodes[i]);
    const bool is_fixed = problem.constraints.strategies[n].has_value();
    out.choices[n] = {space.candidates[i][best[i]],
                      is_fixed ? problem.constraints.reasons[n] : "part of the cheapest of all combinations"};
  }
  return out;
}

}  // namespace

std::vector<Searcher> exhaustive() {
  return {{.name = "exhaustive",
           .aliases = {},
           .doc = "compare every combination of strategies (small networks)",
           .ignores = {Setting::costs, Setting::order, Setting::mem_coeff, Setting::fold_layers,
                       Setting::described, Setting::elementwise_follow, Setting::log},
           .run = run}};
}

}  // namespace shardwright::search
