#include "shardwright/search/space/told.h"

#include <map>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright::space {
namespace {

/// `tp` where most of the work that the axis shares shards parameters, else `dp`; numbered where there are more.
void name_axes(JoinedMesh& mesh, const CutProblem& problem) {
  std::vector<double> of_weights(mesh.mesh.axes.size(), 0), of_batch(mesh.mesh.axes.size(), 0);
  for (int p = 0; p < problem.size(); ++p) {
    const CutPart& part = problem.part(p);
    if (part.strategy.mesh != 0) continue;
    const double flops = flops_of(*problem.graph().node(part.example).op, *part.rule) * part.count;
    for (int l = 0; l < static_cast<int>(part.strategy.loops.size()); ++l)
      for (int a : joined(part.strategy.loops[at(l)], mesh))
        (problem.shards_a_parameter(p, l) ? of_weights : of_batch)[at(a)] += flops;
  }
  std::map<std::string, int> count, next;
  std::vector<std::string> names;
  for (std::size_t a = 0; a < of_batch.size(); ++a) {
    names.push_back(of_weights[a] > of_batch[a] ? "tp" : of_batch[a] > 0 ? "dp" : "copies");
    ++count[names.back()];
  }
  for (std::size_t a = 0; a < names.size(); ++a)
    mesh.mesh.axes[a].name = count[names[a]] > 1 ? names[a] + std::to_string(next[names[a]]++) : names[a];
}

JoinedMesh joined_mesh(const Problem& problem, const CutProblem& decided, const FixedChoices& fixed) {
  std::vector<Axes> lists;
  for (const CutPart& part : decided.parts())
    if (part.strategy.mesh == 0)
      lists.insert(lists.end(), part.strategy.loops.begin(), part.strategy.loops.end());
  for (const auto& [v, layout] : fixed.layouts)
    if (layout.mesh == 0) lists.insert(lists.end(), layout.dims.begin(), layout.dims.end());
  JoinedMesh out = joined_axes(fixed.meshes[0], lists);
  if (!names_axes(problem.fixed)) name_axes(out, decided);
  return out;
}

Strategy joined(Strategy strategy, const JoinedMesh& mesh) {
  if (strategy.mesh != 0) return strategy;
  for (auto* list : {&strategy.loops, &strategy.linear})
    for (Axes& axes : *list) axes = joined(axes, mesh);
  return strategy;
}

}  // namespace

SearchResult told(const Problem& problem, const CutProblem& decided, const FixedChoices& fixed,
                  const ReasonsOn& reasons_on) {
  const JoinedMesh mesh = joined_mesh(problem, decided, fixed);
  SearchResult out{.status = SearchStatus::feasible, .meshes = fixed.meshes, .layouts = fixed.layouts};
  out.meshes[0] = mesh.mesh;
  for (auto& [v, layout] : out.layouts)
    for (Axes& axes : layout.dims)
      if (layout.mesh == 0) axes = joined(axes, mesh);
  std::vector<Reason> reasons = reasons_on(mesh);
  std::vector<Choice> of_part;
  for (int p = 0; p < decided.size(); ++p) {
    const CutPart& part = decided.part(p);
    of_part.push_back(
        {joined(part.fixed.value_or(part.strategy), mesh),
         part.fixed ? Reason(fixed.reasons[at(part.example.index)]) : std::move(reasons[at(p)])});
  }
  out.choices.resize(problem.graph->nodes.size());
  for (NodeId id : problem.graph->node_ids())
    if (const int p = decided.part_of(id); p >= 0) out.choices[at(id.index)] = of_part[at(p)];
  return out;
}

}  // namespace shardwright::space
