#include "shardwright/passes/dependences.h"

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/passes/parameter_steps.h"

namespace shardwright {

Dependences::Dependences(const Graph& graph)
    : graph_(graph),
      fusions_(fusions_of(graph)),
      parameters_(parameter_steps(graph)),
      fusion_of_(graph.nodes.size()),
      is_reduced_early_(graph.nodes.size(), false),
      depths_(graph.nodes.size()),
      early_depths_(graph.nodes.size()),
      rounds_(graph.nodes.size()),
      readiness_(graph.nodes.size()),
      made_(graph.nodes.size()) {
  for (const Update& u : graph.updates) made_[index(producer(u.leaf))] = producer(u.value);
  for (std::size_t f = 0; f < fusions_.size(); ++f)
    for (NodeId id = fusions_[f].begin; id < fusions_[f].end; ++id.index)
      fusion_of_[index(id)] = static_cast<int>(f);
  find_early_sums();
  for (const Fusion& f : fusions_) measure(f);
}

int Dependences::first_of(Phase phase) const {
  const auto it = std::partition_point(fusions_.begin(), fusions_.end(),
                                       [&](const Fusion& f) { return graph_.node(f.begin).phase < phase; });
  return static_cast<int>(it - fusions_.begin());
}

bool Dependences::is_gather(NodeId id) const { return graph_.node(id).op->step == StepKind::all_gather; }

void Dependences::find_early_sums() {
  std::vector<bool> is_used(graph_.values.size(), false);  // in the backward, otherwise
  const auto place = [](ValueId v) { return static_cast<std::size_t>(v.index); };
  const auto is_accumulator = [&](ValueId v) {
    return graph_.node(producer(v)).op->kind == OpKind::accumulator;
  };
  for (NodeId id{static_cast<int>(graph_.nodes.size()) - 1}; id.is_valid(); --id.index) {
    const Node& node = graph_.node(id);
    if (!is_backward(node.phase) || std::ranges::any_of(node.operands, is_accumulator)) continue;
    for (ValueId v : node.operands)
      is_used[place(v)] = is_used[place(v)] || !is_gradients_sum(id) || is_used[place(node.results.front())];
  }
  for (NodeId id : graph_.node_ids()) {
    const Node& node = graph_.node(id);
    if (!is_backward(node.phase) || !is_gradients_sum(id)) continue;
    is_reduced_early_[index(id)] =
        !is_used[place(node.results.front())] && (node.op->step == StepKind::reduce_scatter ||
                                                  is_reduced_early_[index(producer(node.operands.front()))]);
  }
}

void Dependences::measure(const Fusion& f) {
  const Node& first = graph_.node(f.begin);
  const bool is_received = first.op->kind == OpKind::receive && first.phase == Phase::update;
  int depth = 0, early_depth = 0, round = is_received ? ++receives_ : 0, readiness = 0;
  for (NodeId id = f.begin; id < f.end; ++id.index)
    for (ValueId v : graph_.node(id).operands) {
      const NodeId from = producer(v);
      if (from >= f.begin) continue;
      depth = std::max(depth, depths_[index(from)] + static_cast<int>(may_join(from)));
      early_depth =
          std::max(early_depth, early_depths_[index(from)] + static_cast<int>(is_reduced_early(from)));
      round = std::max(round, rounds_[index(from)]);
      readiness = std::max(readiness, readiness_behind(from));
    }
  for (NodeId id = f.begin; id < f.end; ++id.index) {
    depths_[index(id)] = depth;
    early_depths_[index(id)] = early_depth;
    rounds_[index(id)] = round;
    readiness_[index(id)] = readiness;
  }
}

/// An accumulator is ready when the backward has added to it.
int Dependences::readiness_behind(NodeId from) const {
  const bool is_accumulated =
      graph_.node(from).op->kind == OpKind::accumulator && made_[index(from)].is_valid();
  const NodeId made = is_accumulated ? made_[index(from)] : from;
  return graph_.node(made).phase != Phase::update ? fusion_of_[index(made)] + 1 : readiness_[index(made)];
}

}  // namespace shardwright
