// A chain x -> s1 -> s2 -> ... whose inner values nobody else reads is one redistribution from x's layout to
// the chain's last; if the cheapest one is cheaper than the chain, it takes its place.

#include <algorithm>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

struct Chain {
  std::vector<NodeId> nodes;  // first to last
  double seconds = 0;
};

Chain chain_up_from(const Graph& graph, NodeId last, const Users& users, const std::vector<bool>& is_held,
                    Redistributor& redistributor) {
  Chain chain;
  for (NodeId id = last; graph.node(id).op->kind == OpKind::step;) {
    chain.seconds += redistribution_of(graph, graph.node(id), redistributor).seconds;
    chain.nodes.push_back(id);
    const ValueId v = graph.node(id).operands.front();
    if (users[static_cast<std::size_t>(v.index)].size() > 1 || is_held[static_cast<std::size_t>(v.index)])
      break;
    id = graph.value(v).producer;
  }
  std::reverse(chain.nodes.begin(), chain.nodes.end());
  return chain;
}

}  // namespace

Program merge_steps(Program program, const PassContext& context) {
  Graph& graph = program.graph;
  const auto users = users_of(graph);
  const std::vector<bool> is_held = held_values(graph);

  for (NodeId id : graph.node_ids()) {
    if (graph.node(id).op->kind != OpKind::step) continue;
    const Chain chain = chain_up_from(graph, id, users, is_held, context.redistributor);
    if (chain.nodes.size() < 2) continue;
    const ValueId from = graph.node(chain.nodes.front()).operands.front();
    const Value& to = graph.value(graph.node(id).results.front());
    const Redistribution& direct =
        context.redistributor.find(*graph.value(from).layout, *to.layout, to.global_type());
    if (direct.steps.size() != 1 || direct.seconds >= chain.seconds) continue;
    // One step does it all: the chain's last node becomes that step, the others die.
    graph.node(id).operands = {from};
    set_step(graph.node(id), direct.steps.front(), graph.meshes);
  }
  return program;
}

}  // namespace shardwright
