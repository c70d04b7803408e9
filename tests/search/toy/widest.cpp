// A search of a few lines: over each mesh axis the largest loop dim that may be split, operator by operator. For the test
// that a search is one file (tests/scripts/toy_search_test.sh).
#include <algorithm>

#include "shardwright/search/planning/problem.h"

namespace shardwright::search {
namespace {

/// Of the legal strategies the one whose largest loop dim is split most.
Strategy of_largest(const Rule& rule, const Mesh& mesh) {
  const std::vector<Strategy> all = legal_strategies(rule, mesh, {.linear = false});
  const auto size_that_is_split = [&](const Strategy& s) {
    std::int64_t size = 0;
    for (std::size_t l = 0; l < s.loops.size(); ++l)
      if (!s.loops[l].empty()) size = std::max(size, rule.loops[l].size * mesh.count(s.loops[l]));
    return size;
  };
  return *std::ranges::max_element(all, {}, size_that_is_split);
}

SearchResult run(const Problem& problem, const SearchOptions&) {
  SearchResult out{.status = SearchStatus::feasible};
  const Graph& graph = *problem.graph;
  out.choices.resize(graph.nodes.size());
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const auto n = static_cast<std::size_t>(id.index);
    if (const auto& fixed = problem.fixed.strategies[n])
      out.choices[n] = {*fixed, problem.fixed.reasons[n]};
    else
      out.choices[n] = {of_largest(problem.calls->rule(id), problem.fixed.meshes[0]),
                        std::string("the largest dim is split")};
  }
  return out;
}

}  // namespace

std::vector<Searcher> widest() {
  return {{.name = "widest",
           .aliases = {},
           .doc = "split the largest dim of each operator",
           .heeds = {},
           .preference = 9,
           .run = run}};
}

}  // namespace shardwright::search
