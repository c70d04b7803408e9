// A step whose result only other steps read is left out where these cost less from its operand: an all_reduce of
// which every user takes a slice becomes one reduce_scatter for each layout that is wanted. If somebody reads
// the whole result, it stays. merge_steps does the same for chains; here several users share the step.

#include <algorithm>

#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

/// What users of one layout become: one step from the operand of the step that is left out.
struct Direct {
  std::vector<NodeId> users;  // the first one stays
  const Redistribution* way = nullptr;
};

/// The ways past `id`; none if it has to stay.
std::vector<Direct> ways_past(const Graph& graph, NodeId id, std::span<const NodeId> users,
                              Redistributor& redistributor) {
  const Value& from = graph.value(graph.node(id).operands.front());
  double now = redistribution_of(graph, graph.node(id), redistributor).seconds, then = 0;
  std::vector<Direct> out;
  for (NodeId user : users) {
    if (graph.node(user).op->kind != OpKind::step) return {};
    now += redistribution_of(graph, graph.node(user), redistributor).seconds;
    const Value& to = graph.value(graph.node(user).results.front());
    const auto same = std::find_if(out.begin(), out.end(), [&](const Direct& d) {
      return graph.value(graph.node(d.users.front()).results.front()).layout == to.layout;
    });
    if (same != out.end()) {
      same->users.push_back(user);
      continue;
    }
    out.push_back({{user}, &redistributor.find(*from.layout, *to.layout, to.global_type())});
    if (out.back().way->steps.size() != 1) return {};
    then += out.back().way->seconds;
  }
  return then < now ? out : std::vector<Direct>{};
}

}  // namespace

Program bypass_steps(Program program, const PassContext& context) {
  Graph& graph = program.graph;
  const auto users = users_of(graph);
  const std::vector<bool> is_held = held_values(graph);

  std::vector<bool> keep(graph.nodes.size(), true);
  std::vector<ValueId> replacement(graph.values.size());
  std::vector<bool> is_done(graph.nodes.size(), false);  // nodes that stand next to one that was left out
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    const auto result = static_cast<std::size_t>(node.results.front().index);
    if (node.op->kind != OpKind::step || is_done[static_cast<std::size_t>(id.index)]) continue;
    if (is_held[result] || users[result].size() < 2) continue;
    const std::vector<Direct> ways = ways_past(graph, id, users[result], context.redistributor);
    if (ways.empty()) continue;
    keep[static_cast<std::size_t>(id.index)] = false;
    for (const Direct& direct : ways)
      for (NodeId user : direct.users) {
        Node& u = graph.node(user);
        is_done[static_cast<std::size_t>(user.index)] = true;
        u.operands = node.operands;
        set_step(u, direct.way->steps.front(), graph.meshes);
        if (user == direct.users.front()) continue;
        keep[static_cast<std::size_t>(user.index)] = false;
        replacement[static_cast<std::size_t>(u.results.front().index)] =
            graph.node(direct.users.front()).results.front();
      }
  }
  program.graph = rebuild(std::move(program.graph), kept(keep), replacement);
  return program;
}

}  // namespace shardwright
