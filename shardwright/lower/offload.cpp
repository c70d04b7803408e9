// The rewriting goes over the fusions once. In front of one stand the fetches of what it reads and does not find on the
// device (in this phase), as one transfer; behind one is begun to be evicted what it makes for the host. That is waited for
// where others have begun that would hold more of the device's memory with it than may be (most_held), or where somebody reads
// it, or the phase ends.

#include "shardwright/lower/offload.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_set>

#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {
namespace {

class Offloading {
 public:
  Offloading(Program program, const Offload& offload, const CopyPace& pace)
      : program_(std::move(program)), graph_(program_.graph), fusions_(fusions_of(graph_)) {
    for (const Value& v : graph_.values) names_.insert(v.name);
    is_sent_.assign(graph_.values.size(), false);
    for (ValueId v : graph_.sends) {  // of leaves before any node runs
      const ValueId root = root_of(graph_, v);
      is_sent_[at(root.index)] = true;
      if (is_leaf(producer(root))) graph_.node(graph_.value(root).producer).space = Space::device;
    }
    place_leaves(OpKind::parameter, offload.parameters);
    place_leaves(OpKind::state, offload.optimizer);
    const std::vector<ValueId> kept = kept_activations(graph_);
    let_leave(kept);  // whatever share of them does: what is on its way is beside what stays
    for (std::size_t u = 0; u < graph_.updates.size(); ++u) updates_.emplace(graph_.updates[u].value, u);
    for (const Fusion& fusion : fusions_)
      if (const std::int64_t bytes = bytes_left(fusion); bytes > 0) {
        const Phase phase = graph_.node(fusion.begin).phase;
        evicts_.add(phase, bytes, phase == Phase::forward ? program_.lanes.slots[0] : 1);
      }
    let_leave(earliest_offloaded(graph_, kept, offload.activations, pace));
  }

  Program run() && {
    for (const Fusion& fusion : fusions_) add(fusion);
    flush();
    for (std::size_t u = 0; u < graph_.updates.size(); ++u) bring_to_leaf(u, nullptr);
    flush();
    program_.graph = rebuild(std::move(graph_), order_, std::vector<ValueId>(graph_.values.size()));
    for (std::size_t i = 0; i < order_.size(); ++i) program_.graph.nodes[i].is_fused = is_fused_[i];
    return std::move(program_);
  }

 private:
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }

  // ---- what is on the host ----

  /// Without numbers, which every step counts, and states that the forward changes.
  void place_leaves(OpKind kind, double share) {
    std::vector<bool> changes_early(graph_.values.size(), false);
    for (const Update& u : graph_.updates)
      changes_early[at(u.leaf.index)] =
          !is_leaf(producer(u.value)) && producer(u.value).phase == Phase::forward;
    std::vector<ValueId> values;
    for (const Node& node : graph_.nodes) {
      if (node.op->kind != kind || node.space == Space::host) continue;
      const ValueId v = node.results.front();
      if (!is_sent_[at(v.index)] && !changes_early[at(v.index)] &&
          element_count(graph_.value(v).type.shape) > 1)
        values.push_back(v);
    }
    for (ValueId v : largest_offloaded(graph_, std::move(values), share))
      graph_.node(graph_.value(v).producer).space = Space::host;
  }

  /// Behind what makes them.
  void let_leave(const std::vector<ValueId>& values) {
    is_evicted_.assign(graph_.values.size(), false);
    for (ValueId v : values) is_evicted_[at(v.index)] = true;
  }

  // ---- the new order ----

  void put(NodeId id, bool is_fused) {
    order_.push_back(id);
    is_fused_.push_back(is_fused);
  }

  /// Steps that run as one stand together: those of one mesh.
  void put_steps(std::vector<NodeId>& steps) {
    const auto mesh = [&](NodeId id) {
      const auto& layout = graph_.value(graph_.node(id).results.front()).layout;
      return layout ? layout->mesh : 0;
    };
    std::ranges::stable_sort(steps, {}, mesh);
    for (std::size_t i = 0; i < steps.size(); ++i)
      put(steps[i], i > 0 && mesh(steps[i]) == mesh(steps[i - 1]));
    steps.clear();
  }

  ValueId new_value(ValueId like, NodeId producer) {
    Value v = graph_.value(like);
    do v.name = std::to_string(next_name_++);
    while (!names_.insert(v.name).second);
    v.producer = producer;
    v.result = 0;
    v.gradient_of.clear();
    graph_.values.push_back(std::move(v));
    return {static_cast<int>(graph_.values.size()) - 1};
  }

  /// Of `from`, in the phase of the node for which it is done.
  NodeId new_step(StepKind kind, ValueId from, Phase phase, NodeId owner) {
    const NodeId id{static_cast<int>(graph_.nodes.size())};
    Node node{.op = &op_of(kind, Reduction::sum),
              .operands = {from},
              .results = {},
              .attributes = {},
              .phase = phase};
    node.owner = owner;
    node.results = {new_value(from, id)};
    graph_.nodes.push_back(std::move(node));
    return id;
  }
  ValueId result(NodeId id) const { return graph_.node(id).results.front(); }

  void add(const Fusion& fusion) {
    const Phase phase = graph_.node(fusion.begin).phase;
    if (phase != phase_) flush();
    phase_ = phase;
    std::vector<NodeId> steps, aliases;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
      if (is_leaf(graph_.node(id))) continue;
      for (std::size_t i = 0; i < graph_.node(id).operands.size(); ++i) {
        const ValueId v = graph_.node(id).operands[i];
        if (graph_.value(v).producer < fusion.begin) {
          const ValueId there = brought(v, id, steps, aliases);
          graph_.node(id).operands[i] = there;
        }
      }
    }
    put_steps(steps);
    for (NodeId id : aliases) put(id, false);
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index) put(id, graph_.node(id).is_fused);
    std::vector<NodeId> evicted;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
      for (std::size_t r = 0; r < graph_.node(id).results.size(); ++r)
        leave(graph_.node(id).results[r], evicted);
    if (evicted.empty()) return;
    const std::int64_t bytes = bytes_left(fusion);
    while (!pending_.empty() && pending_bytes_ + bytes > evicts_.most(evicts_held, phase)) wait_for_oldest();
    pending_.push_back({std::move(evicted), bytes});
    pending_bytes_ += bytes;
  }

  /// That the fusion makes, and that are evicted behind it.
  std::int64_t bytes_left(const Fusion& fusion) const {
    std::int64_t out = 0;
    for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
      for (ValueId v : graph_.node(id).results) {
        const auto [first, last] = updates_.equal_range(v);
        const bool is_of_leaf = std::any_of(first, last, [&](const auto& u) {
          return space_of(graph_, graph_.updates[u.second].leaf) == Space::host;
        });
        if (is_evicted_[at(v.index)] || (is_of_leaf && space_of(graph_, v) == Space::device))
          out += graph_.value(v).type.bytes();
      }
    return out;
  }

  /// `v` where `reader` runs.
  ValueId brought(ValueId v, NodeId reader, std::vector<NodeId>& steps, std::vector<NodeId>& aliases) {
    const Node& node = graph_.node(reader);
    const Phase phase = node.phase;
    if (is_backward(phase) && node.space == Space::device && is_evicted_[at(root_of(graph_, v).index)] &&
        producer(v).phase == Phase::forward)
      return fetched_again(v, reader, steps, aliases);
    const Space there = space_of(graph_, v);
    if (there == node.space) return v;
    const auto [known, is_new] = brought_.try_emplace({v, phase});
    if (!is_new) return known->second;
    if (const auto evicted = evicted_.find(v); evicted != evicted_.end() && node.space == Space::host) {
      flush();
      return known->second = evicted->second;
    }
    const StepKind kind = there == Space::host ? StepKind::fetch : StepKind::evict;
    steps.push_back(new_step(kind, v, phase, node.owner));
    return known->second = result(steps.back());
  }

  /// What the forward has left on the host: itself, and the other views of it anew.
  ValueId fetched_again(ValueId v, NodeId reader, std::vector<NodeId>& steps, std::vector<NodeId>& aliases) {
    const Phase phase = graph_.node(reader).phase;
    if (const auto known = brought_.find({v, phase}); known != brought_.end()) return known->second;
    const NodeId owner = graph_.node(reader).owner;
    ValueId out;
    if (producer(v).op->is_alias) {
      const ValueId from = fetched_again(producer(v).operands.front(), reader, steps, aliases);
      Node again = producer(v);
      const NodeId id{static_cast<int>(graph_.nodes.size())};
      again.operands.front() = from;
      again.phase = phase;
      again.is_fused = false;
      again.results = {new_value(v, id)};
      graph_.nodes.push_back(std::move(again));
      aliases.push_back(id);
      out = result(id);
    } else {
      steps.push_back(new_step(StepKind::fetch, evicted_.at(v), phase, owner));
      out = result(steps.back());
    }
    brought_.emplace(std::pair(v, phase), out);
    return out;
  }

  /// What is to be on the host, or on the device, when the node that makes it has run.
  void leave(ValueId v, std::vector<NodeId>& evicted) {
    if (is_evicted_[at(v.index)]) {
      evicted.push_back(new_step(StepKind::evict, v, phase_, producer(v).owner));
      evicted_[v] = result(evicted.back());
    }
    const auto [first, last] = updates_.equal_range(v);
    for (auto u = first; u != last; ++u) bring_to_leaf(u->second, &evicted);
    if (space_of(graph_, v) == Space::device) return;
    for (auto* values : {&graph_.outputs, &graph_.sends})
      for (ValueId& held : *values)
        if (held == v) held = fetched_now(v);
  }

  ValueId fetched_now(ValueId v) {
    const auto [known, is_new] = brought_.try_emplace({v, phase_});
    if (is_new) {
      const NodeId id = new_step(StepKind::fetch, v, phase_, producer(v).owner);
      put(id, false);
      known->second = result(id);
    }
    return known->second;
  }

  /// The new value of a leaf goes where that lies: behind others that are under way, or without them at once.
  void bring_to_leaf(std::size_t u, std::vector<NodeId>* evicted) {
    Update& update = graph_.updates[u];
    const Space wanted = space_of(graph_, update.leaf);
    if (space_of(graph_, update.value) == wanted) return;
    if (wanted == Space::device) {
      update.value = fetched_now(update.value);
      return;
    }
    const NodeId id = new_step(StepKind::evict, update.value, phase_, producer(update.value).owner);
    if (evicted)
      evicted->push_back(id);
    else
      put(id, false);
    update.value = result(id);
  }

  void flush() {
    while (!pending_.empty()) wait_for_oldest();
  }
  void wait_for_oldest() {
    put_steps(pending_.front().steps);
    pending_bytes_ -= pending_.front().bytes;
    pending_.pop_front();
  }

  /// Evicts of what one fusion has made.
  struct Pending {
    std::vector<NodeId> steps;
    std::int64_t bytes = 0;
  };

  Program program_;
  Graph& graph_;
  std::vector<Fusion> fusions_;
  std::multimap<ValueId, std::size_t> updates_;           // by the values that leaves take
  std::vector<bool> is_sent_;                             // by value, of those that were there before
  std::vector<bool> is_evicted_;                          // by value, of those that were there before
  std::map<ValueId, ValueId> evicted_;                    // what the forward leaves, on the host
  std::map<std::pair<ValueId, Phase>, ValueId> brought_;  // in the other space, by who reads it
  std::deque<Pending> pending_;                           // that are not waited for yet
  std::int64_t pending_bytes_ = 0;
  CopiedBytes evicts_;
  std::vector<NodeId> order_;
  std::vector<bool> is_fused_;
  std::unordered_set<std::string> names_;
  int next_name_ = 1;
  Phase phase_ = Phase::forward;
};

}  // namespace

Graph with_hosted(Graph graph, const Offload& offload) {
  std::vector<bool> is_hosted(graph.nodes.size(), false);
  for (const std::string& name : offload.operators)
    for (NodeId id : hosted_by(name, graph)) is_hosted[at(id.index)] = true;
  const Users users(graph);
  const auto belongs = [&](NodeId id) {
    const NodeId owner = graph.node(id).owner;
    return owner.is_valid() && is_hosted[at(owner.index)];
  };
  for (NodeId id : graph.node_ids())
    if (graph.node(id).op->kind == OpKind::compute && belongs(id)) graph.node(id).space = Space::host;
  for (NodeId id : graph.node_ids()) {
    Node& node = graph.node(id);
    if (node.op->kind == OpKind::compute || node.op->kind == OpKind::receive) continue;
    const auto readers = users[at(node.results.front().index)];
    const bool all = !readers.empty() && std::ranges::all_of(readers, [&](NodeId r) {
      return graph.node(r).space == Space::host;
    });
    if (all || is_hosted[at(id.index)] || (node.op->kind == OpKind::parameter && belongs(id)))
      node.space = Space::host;
  }
  for (NodeId id : graph.node_ids()) {  // with a parameter lie its states
    const Node& node = graph.node(id);
    if (!node.op->optimizer || graph.node(graph.value(node.operands.front()).producer).space == Space::device)
      continue;
    for (ValueId v : state_operands(node)) graph.node(graph.value(v).producer).space = Space::host;
  }
  return graph;
}

Program with_offload(Program program, const Offload& offload, const CopyPace& pace) {
  const bool is_hosted =
      std::ranges::any_of(program.graph.nodes, [](const Node& n) { return n.space == Space::host; });
  if (!offload.is_on() && !is_hosted) return program;
  return Offloading(std::move(program), offload, pace).run();
}

}  // namespace shardwright
