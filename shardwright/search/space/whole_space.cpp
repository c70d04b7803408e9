#include "shardwright/search/space/whole_space.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/space/candidates.h"

namespace shardwright::space {
namespace {

/// On the joined mesh, if that can say it.
std::optional<Strategy> joined_if_it_can(const Strategy& s, const Mesh& before, const JoinedMesh& mesh) {
  Strategy out = s;
  if (s.mesh != 0) return out;
  for (Axes& axes : out.loops) {
    const int parts = before.count(axes);
    axes = joined(axes, mesh);
    if (mesh.mesh.count(axes) != parts) return std::nullopt;
  }
  return out;
}

double work_of(const Problem& problem, const Fold& fold, const FixedChoices& fixed,
               const SearchOptions& options) {
  double out = 0;
  for (const auto& members : fold.members) {
    const NodeId id = members.front();
    if (problem.graph->node(id).op->kind != OpKind::compute) continue;
    const auto count = static_cast<double>(
        candidates_of(problem, fixed, id, problem.calls->rule(id), options, whole_strategies).size());
    out += count * count * count;
  }
  return out;
}

}  // namespace

WholeSpace::WholeSpace(const Problem& problem, const SearchOptions& options, double most_work)
    : problem_(problem), fold_(fold_of(problem, options.fold_layers)) {
  constexpr std::size_t ways = 4;
  std::vector<FixedChoices> all = on_ladders(problem.fixed, *problem.cluster, ways);
  const auto is_too_much = [&](const FixedChoices& f) {
    return work_of(problem, fold_, f, options) > most_work;
  };
  const FixedChoices least = all.front();
  std::erase_if(all, is_too_much);
  if (all.empty()) all.push_back(least);
  const Holding holding{.slots = problem.judge->micro_batches().slots(),
                        .sharded = problem.judge->optimizer_parallel()};
  for (FixedChoices& fixed : all) {
    CutProblem cuts(*problem.graph, *problem.calls, fold_, fixed);
    const PartCosts costs(cuts, *problem.calls, *problem.cluster, holding);
    ChoiceTables tables = choice_tables(problem, cuts, fixed, costs, options);
    ladders_.push_back({std::move(fixed), std::move(cuts), std::move(tables)});
    if (options.deadline.is_over()) break;
  }
}

SearchResult WholeSpace::unexplained(const OnLadder& on, const std::vector<int>& chosen) const {
  return told(problem_, decided(on.cuts, on.tables, chosen, on.fixed), on.fixed,
              [&](const JoinedMesh&) { return std::vector<Reason>(at(on.cuts.size())); });
}

SearchResult WholeSpace::explained(const OnLadder& on, const std::vector<int>& chosen,
                                   const CutWeights& weights) const {
  return told(problem_, decided(on.cuts, on.tables, chosen, on.fixed), on.fixed,
              [&](const JoinedMesh& mesh) { return reasons(on, chosen, on.tables.weighted(weights), mesh); });
}

std::vector<Reason> WholeSpace::reasons(const OnLadder& on, const std::vector<int>& chosen,
                                        const TableSum& sum, const JoinedMesh& mesh) const {
  constexpr std::size_t most = 2;
  std::vector<Reason> out;
  for (int p = 0; p < on.cuts.size(); ++p) {
    const CutPart& part = on.cuts.part(p);
    const std::vector<double> sums = sum.along(p, chosen);

    std::string others;
    std::size_t told = 0;
    bool is_least = true;  // by figures
    for (int i : sum.ranked(p, chosen)) {
      if (i == chosen[at(p)]) continue;
      const auto strategy = joined_if_it_can(on.tables.strategies[at(p)][at(i)], on.fixed.meshes[0], mesh);
      if (!strategy || told == most) continue;
      const double more = (sums[at(i)] - sums[at(chosen[at(p)])]) / part.count;
      if (more >= forbidden_seconds / 2) continue;
      is_least = is_least && more >= 0;
      others += fmt::format("{}{} {:+.2g} ms", told++ ? ", " : "",
                            to_text(*strategy, *part.rule,
                                    strategy->mesh == 0 ? mesh.mesh : on.fixed.meshes[at(strategy->mesh)]),
                            more * 1e3);
    }
    out.emplace_back(others.empty()
                         ? "the only way"
                         : (is_least ? "least in all; instead " : "by its program; instead ") + others);
  }
  return out;
}

std::string WholeSpace::size() const {
  std::size_t strategies = 0;
  for (const OnLadder& on : ladders_)
    for (const auto& some : on.tables.strategies) strategies += some.size();
  return fmt::format("{} operators, {} strategies on {} mesh{}", ladders_.front().cuts.size(), strategies,
                     ladders_.size(), ladders_.size() == 1 ? "" : "es");
}

}  // namespace shardwright::space
