// Point-wise nodes over the same elements run together, block by block, so that a block stays in the cache and
// what only they use never reaches memory. A chain may start behind a node that makes its result by rows (a
// matrix product): bias and activation, or the update of a weight behind its gradient, then take the rows
// while they are hot.
//
// The pass emits the nodes anew, in their order. Each emitted node that may start a chain takes along every
// user of its results that can be computed by then, with the point-wise nodes that these need beside it; so
// fused nodes stand together in a valid order by construction. Two things bound what is taken along:
// - A node moves up within its phase only; updates may move into the backward, which shortens lifetimes,
//   unless there are several micro-batches or stages.
// - A new value that may be written over its leaf waits for all who read the old one. If these readers are
//   ready, they are emitted first: a weight's gradient lets the product that still needs the weight pass.

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

constexpr std::size_t longest = 32;  // nodes run together: their blocks must fit into the cache

/// What other stages send in the update comes when the backward is over.
bool is_of_pipeline(const Graph& graph) {
  return !graph.sends.empty() || std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op->kind == OpKind::receive;
  });
}

struct Emitted {
  NodeId node;
  Phase phase;
  bool is_fused;
};

class PointwiseFuser {
 public:
  PointwiseFuser(const Program& program, bool is_piece)
      : graph_(program.graph),
        has_one_backward_(program.batch_parts() == 1 && (is_piece || !is_of_pipeline(program.graph))),
        users_(users_of(graph_)),
        needs_(graph_.nodes.size()),
        emitted_(graph_.nodes.size()) {
    const Graph& graph = graph_;
    for (NodeId id : graph.node_ids())
      for (ValueId v : graph.node(id).operands) needs_[at(id.index)].push_back(graph.value(v).producer);
    for (const Update& u : graph.updates) {
      const NodeId writer = graph.value(u.value).producer;
      for (NodeId reader : users_[at(u.leaf.index)])
        if (reader < writer) needs_[at(writer.index)].push_back(reader);
    }
  }

  /// The nodes in their new order.
  std::vector<Emitted> run() {
    for (NodeId id : graph_.node_ids()) emit(id, true);
    return std::move(order_);
  }

 private:
  bool is_emitted(NodeId id) const { return emitted_[at(id.index)]; }
  bool is_ready(NodeId id) const {
    return std::all_of(needs_[at(id.index)].begin(), needs_[at(id.index)].end(),
                       [&](NodeId n) { return is_emitted(n); });
  }
  /// A leaf, or a constant: needs nothing and may stand anywhere before its users.
  bool is_leaf(NodeId id) const {
    return needs_[at(id.index)].empty() && !graph_.node(id).op->block && !is_awaited(id);
  }
  /// Another stage may wait for what stands above it before it sends this, so that it moves up to nobody.
  bool is_awaited(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op->kind == OpKind::receive && node.phase == Phase::update;
  }
  const Value& first_result(NodeId id) const { return graph_.value(graph_.node(id).results.front()); }

  /// `id` is point-wise over the elements of `leader`, and may move up to it.
  bool fits(NodeId id, NodeId leader) const {
    const Node& node = graph_.node(id);
    const Phase phase = graph_.node(leader).phase;
    if (!node.op->block || is_emitted(id) || node.space != graph_.node(leader).space) return false;
    if (node.phase != phase && !(has_one_backward_ && node.phase == Phase::update && is_backward(phase)))
      return false;
    return std::all_of(node.results.begin(), node.results.end(),
                       [&](ValueId v) { return lie_alike(graph_.value(v), first_result(leader)); });
  }

  void put(NodeId id, NodeId leader) {
    emitted_[at(id.index)] = true;
    order_.push_back({id, graph_.node(leader).phase, id != leader});
  }

  void emit(NodeId id, bool may_wait) {
    if (is_emitted(id)) return;
    const Node& node = graph_.node(id);
    if (may_wait && node.op->is_made_by_rows) let_pass(id);
    std::size_t begin = order_.size();
    put(id, id);
    if (!node.op->block && !node.op->is_made_by_rows) return;
    for (std::size_t i = begin; i < order_.size(); ++i)
      for (ValueId v : graph_.node(order_[i].node).results)
        for (NodeId user : users_[at(v.index)]) {
          const std::size_t leaves = take_along(user, id, begin);
          begin += leaves;
          i += leaves;
        }
  }

  /// Emits the nodes that alone keep the users of `id` from being taken along.
  void let_pass(NodeId id) {
    for (ValueId v : graph_.node(id).results)
      for (NodeId user : users_[at(v.index)]) {
        if (!fits(user, id)) continue;
        const std::vector<NodeId>& needs = needs_[at(user.index)];
        const bool can_pass = std::all_of(needs.begin(), needs.end(), [&](NodeId n) {
          return n == id || is_emitted(n) || is_leaf(n) ||
                 (is_ready(n) && !is_awaited(n) && graph_.node(n).phase == graph_.node(id).phase);
        });
        if (!can_pass) continue;
        for (NodeId n : needs)
          if (n != id && !is_leaf(n)) emit(n, false);
      }
  }

  /// Emits `user` and the point-wise nodes that it needs beside the chain, if that makes it computable. Leaves
  /// that they need are put before the chain, which begins at `begin`. Returns how many.
  std::size_t take_along(NodeId user, NodeId leader, std::size_t begin) {
    std::vector<NodeId> wanted, leaves;
    if (!collect(user, leader, wanted, leaves) || order_.size() - begin + wanted.size() > longest) return 0;
    for (NodeId id : wanted) put(id, leader);
    for (NodeId id : leaves) {
      emitted_[at(id.index)] = true;
      order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(begin++),
                    {id, graph_.node(leader).phase, false});
    }
    return leaves.size();
  }

  /// Appends `id` behind what it needs. False if something needed cannot be taken along.
  bool collect(NodeId id, NodeId leader, std::vector<NodeId>& wanted, std::vector<NodeId>& leaves) const {
    if (std::find(wanted.begin(), wanted.end(), id) != wanted.end()) return true;
    if (!fits(id, leader) || wanted.size() >= longest) return false;
    for (NodeId n : needs_[at(id.index)]) {
      if (is_emitted(n)) continue;
      if (!is_leaf(n)) {
        if (!collect(n, leader, wanted, leaves)) return false;
      } else if (std::find(leaves.begin(), leaves.end(), n) == leaves.end()) {
        leaves.push_back(n);
      }
    }
    wanted.push_back(id);
    return true;
  }

  const Graph& graph_;
  bool has_one_backward_;
  Users users_;                             // by value
  std::vector<std::vector<NodeId>> needs_;  // by node: what must be emitted before it
  std::vector<bool> emitted_;               // by node
  std::vector<Emitted> order_;
};

Graph reordered(Graph graph, const std::vector<Emitted>& order) {
  std::vector<NodeId> nodes;
  for (const Emitted& e : order) nodes.push_back(e.node);
  const std::vector<ValueId> same(graph.values.size());
  Graph out = rebuild(std::move(graph), nodes, same);
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.nodes[i].phase = order[i].phase;
    out.nodes[i].is_fused = order[i].is_fused;
  }
  return out;
}

}  // namespace

Program fuse_pointwise(Program program, const PassContext& context) {
  const std::vector<Emitted> order = PointwiseFuser(program, context.is_piece).run();
  program.graph = reordered(std::move(program.graph), order);
  return program;
}

}  // namespace shardwright
