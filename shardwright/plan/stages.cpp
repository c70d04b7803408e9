#include "shardwright/plan/stages.h"

#include <algorithm>
#include <map>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/sums_of_stages.h"

namespace shardwright {
namespace {

constexpr int everywhere = -1;

/// The stage of every node, from those of the forward compute nodes.
class Assignment {
 public:
  Assignment(const Graph& graph, const std::vector<int>& forward)
      : graph_(graph), stages_(graph.nodes.size(), everywhere), is_free_(graph.values.size()) {
    find_free();
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (is_leaf(node) || is_free(node)) continue;
      stages_[at(id.index)] = node.phase == Phase::forward ? forward[at(id.index)] : derived(node);
      if (is_accumulation(graph, node)) stages_[at(producer(node.operands[0]).index)] = stages_[at(id.index)];
      place_leaves_of(id);
    }
    place_unread();
  }

  std::vector<int> result() { return std::move(stages_); }

 private:
  NodeId producer(ValueId v) const { return graph_.value(v).producer; }
  int stage(ValueId v) const { return stages_[at(producer(v).index)]; }

  bool is_free(const Node& node) const {
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [this](ValueId v) { return is_free_[at(v.index)]; });
  }

  /// Constants, states whose next value depends on nothing but themselves, and what is computed from these.
  void find_free() {
    const std::vector<Origin> origins = find_origins();
    for (const Update& u : graph_.updates)
      if (graph_.node(producer(u.leaf)).op->kind == OpKind::state &&
          origins[at(u.value.index)].is_within(u.leaf))
        is_free_[at(u.leaf.index)] = true;
    for (const Node& node : graph_.nodes) {
      if (is_leaf(node)) continue;
      const bool free = is_free(node);
      for (ValueId v : node.results) is_free_[at(v.index)] = free;
    }
  }

  /// The leaves that a value is computed from: none, one, or more than one.
  struct Origin {
    ValueId leaf;
    bool is_mixed = false;
    bool is_within(ValueId other) const { return !is_mixed && (!leaf.is_valid() || leaf == other); }
    void add(const Origin& other) {
      is_mixed = is_mixed || other.is_mixed || (leaf.is_valid() && !other.is_within(leaf));
      if (!leaf.is_valid()) leaf = other.leaf;
    }
  };
  std::vector<Origin> find_origins() const {
    std::vector<Origin> out(graph_.values.size());
    for (const Node& node : graph_.nodes) {
      Origin of_node{is_leaf(node) ? node.results.front() : ValueId{}};
      for (ValueId v : node.operands) of_node.add(out[at(v.index)]);
      for (ValueId v : node.results) out[at(v.index)] = of_node;
    }
    return out;
  }

  /// Parameters and states go to their first reader; inputs are everywhere.
  void place_leaves_of(NodeId id) {
    for (ValueId v : graph_.node(id).operands) {
      const OpKind kind = graph_.node(producer(v)).op->kind;
      int& of_leaf = stages_[at(producer(v).index)];
      if ((kind == OpKind::parameter || kind == OpKind::state) && !is_free_[at(v.index)] &&
          of_leaf == everywhere)
        of_leaf = stages_[at(id.index)];
    }
  }

  /// What nobody reads in a step lies where its next value is made.
  void place_unread() {
    for (const Update& u : graph_.updates)
      if (stage(u.leaf) == everywhere && !is_free_[at(u.leaf.index)])
        stages_[at(producer(u.leaf).index)] = stage(u.value);
  }

  /// Gradients come from stages behind: the first of these adds them up, so that one goes on.
  int first_stage_of(const Node& sum) const {
    int out = everywhere;
    for (ValueId v : sum.operands)
      if (stage(v) != everywhere && (out == everywhere || stage(v) < out)) out = stage(v);
    return out;
  }

  int derived(const Node& node) const {
    if (is_accumulation(graph_, node)) return stage(node.operands[1]);
    if (node.forward.is_valid() && stages_[at(node.forward.index)] != everywhere)
      return stages_[at(node.forward.index)];
    // What one stage contributes several times is summed before it is sent (plan/sums_of_stages.h).
    const bool is_of_one = std::all_of(node.operands.begin(), node.operands.end(),
                                       [&](ValueId v) { return stage(v) == stage(node.operands.front()); });
    if (is_of_one && stage(node.operands.front()) != everywhere) return stage(node.operands.front());
    for (ValueId v : graph_.value(node.results.front()).gradient_of)
      if (stage(v) != everywhere)
        return node.phase == Phase::backward ? std::max(stage(v), first_stage_of(node)) : stage(v);
    for (ValueId v : node.operands)
      if (stage(v) != everywhere) return stage(v);
    return 0;
  }

  const Graph& graph_;
  std::vector<int> stages_;
  std::vector<bool> is_free_;  // per value
};

/// Which nodes each stage has: its own, and those everywhere that they need. What no other needs, and what is handed
/// out, the last has.
std::vector<std::vector<bool>> needed(const Graph& graph, const std::vector<int>& stage_of, int stages) {
  std::vector<std::vector<bool>> out(at(stages), std::vector<bool>(graph.nodes.size()));
  for (int s = 0; s < stages; ++s) {
    std::vector<bool>& need = out[at(s)];
    const auto is_unneeded = [&](std::size_t n) {
      return stage_of[n] == everywhere &&
             std::none_of(out.begin(), out.end(), [n](const auto& other) { return other[n]; });
    };
    const bool is_last = s == stages - 1;
    for (std::size_t n = 0; n < stage_of.size(); ++n)
      need[n] = stage_of[n] == s || (is_last && is_unneeded(n));
    for (ValueId v : graph.outputs) {
      const std::size_t n = at(graph.value(v).producer.index);
      if (is_last && stage_of[n] == everywhere) need[n] = true;
    }
    for (bool changes = true; std::exchange(changes, false);) {
      for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;)
        for (ValueId v : graph.nodes[at(n)].operands) {
          const int producer = graph.value(v).producer.index;
          if (need[at(n)] && stage_of[at(producer)] == everywhere) need[at(producer)] = true;
        }
      for (const Update& u : graph.updates) {
        const int leaf = graph.value(u.leaf).producer.index, value = graph.value(u.value).producer.index;
        if (need[at(leaf)] && stage_of[at(value)] == everywhere && !need[at(value)])
          changes = need[at(value)] = true;
      }
    }
  }
  return out;
}

class Cutting {
 public:
  Cutting(const Graph& graph, std::vector<int> stage_of, int stages, const std::vector<int>& wanted)
      : graph_(graph),
        stage_of_(std::move(stage_of)),
        stages_(stages),
        is_wanted_(at(stages), wanted.empty()),
        needed_(needed(graph, stage_of_, stages)),
        batch_dims_(batch_dims(graph)) {
    for (int s : wanted) is_wanted_[at(s)] = true;
  }

  StagedGraph run() {
    check_updates();
    find_crossings();
    values_.resize(at(stages_));
    out_.stages.resize(at(stages_));
    for (int s = 0; s < stages_; ++s)
      if (is_wanted_[at(s)]) out_.stages[at(s)] = graph_of(s);
    for (const auto& [key, index] : crossings_) {
      const auto& [v, to] = key;
      const int from = stage(v);
      if (!is_wanted_[at(from)]) continue;
      Graph& sender = out_.stages[at(from)];
      out_.crossings.push_back({from, to, static_cast<int>(sender.sends.size()), graph_.value(v).name});
      sender.sends.push_back(values_[at(from)][at(v.index)]);
    }
    for (ValueId v : graph_.outputs) {
      int s = stage(v);
      if (s == everywhere) s = stages_ - 1;
      if (!is_wanted_[at(s)]) continue;
      out_.outputs.push_back({s, static_cast<int>(out_.stages[at(s)].outputs.size())});
      require(values_[at(s)][at(v.index)].is_valid(), "output %{} is in no stage", graph_.value(v).name);
      out_.stages[at(s)].outputs.push_back(values_[at(s)][at(v.index)]);
    }
    return std::move(out_);
  }

 private:
  int stage(ValueId v) const { return stage_of_[at(graph_.value(v).producer.index)]; }

  /// What a state holds next is made where it is kept.
  void check_updates() const {
    for (const Update& u : graph_.updates) {
      const int kept = stage(u.leaf), made = stage(u.value);
      if (kept != everywhere && made != everywhere && kept != made)
        throw error(
            "state %{} is read in stage {} but its next value %{} is made in stage {}; give both one stage",
            graph_.value(u.leaf).name, kept, graph_.value(u.value).name, made);
    }
  }

  /// In which phase a value is received: what is accumulated when all of it is there.
  Phase phase_of(ValueId v) const {
    const Node& node = graph_.node(graph_.value(v).producer);
    return is_accumulation(graph_, node) ? Phase::update : node.phase;
  }

  /// The same for all micro-batches of a step.
  bool stays(ValueId v) const {
    const OpKind kind = graph_.node(graph_.value(v).producer).op->kind;
    return kind == OpKind::parameter || kind == OpKind::state;
  }

  /// What the stage that receives `v` is told of it.
  Attributes attributes_of_received(ValueId v) const {
    if (stays(v)) return {{"once", std::int64_t{1}}};
    if (phase_of(v) != Phase::forward) return {};
    return attributes_of_batch(batch_dims_[at(v.index)]);
  }

  void find_crossings() {
    std::vector<int> end(phases, static_cast<int>(graph_.nodes.size()));  // of each phase
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;)
      for (int p = 0; p < static_cast<int>(graph_.nodes[at(n)].phase); ++p) end[at(p)] = n;
    for (NodeId id : graph_.node_ids()) {
      const int to = stage_of_[at(id.index)];
      if (to == everywhere) continue;
      for (ValueId v : graph_.node(id).operands) {
        const NodeId producer = graph_.value(v).producer;
        const int from = stage_of_[at(producer.index)];
        if (from == everywhere || from == to || crossings_.contains({v, to})) continue;
        if (graph_.node(id).phase == Phase::forward && graph_.node(producer).op->kind == OpKind::compute &&
            from > to)
          throw error(
              "{}: it is in stage {} but reads %{} of stage {}; an operator cannot read from a later stage",
              graph_.name_of(id), to, graph_.value(v).name, from);
        const bool is_same_phase = graph_.node(id).phase == phase_of(v);
        const int place = is_same_phase ? id.index : end[static_cast<std::size_t>(phase_of(v))];
        crossings_.emplace(std::pair{v, to}, 0);
        received_.emplace(std::pair{to, place}, v);
      }
    }
  }

  Graph graph_of(int s) {
    Graph out;
    std::vector<ValueId>& values = values_[at(s)];
    values.resize(graph_.values.size());
    std::vector<NodeId> nodes(graph_.nodes.size());
    const auto add_value = [&](ValueId v, int result) {
      Value value = graph_.value(v);
      value.producer = {static_cast<int>(out.nodes.size())};
      value.result = result;
      std::vector<ValueId> gradient_of;
      for (ValueId of : value.gradient_of)
        if (values[at(of.index)].is_valid()) gradient_of.push_back(values[at(of.index)]);
      value.gradient_of = std::move(gradient_of);
      values[at(v.index)] = {static_cast<int>(out.values.size())};
      out.values.push_back(std::move(value));
      return values[at(v.index)];
    };
    bool has_operator = false;
    for (int n = 0; n <= static_cast<int>(graph_.nodes.size()); ++n) {
      const auto [first, last] = received_.equal_range({s, n});
      for (auto it = first; it != last; ++it) {
        const ValueId received = add_value(it->second, 0);
        out.nodes.push_back({.op = &op_of(OpKind::receive),
                             .operands = {},
                             .results = {received},
                             .attributes = attributes_of_received(it->second),
                             .phase = phase_of(it->second)});
      }
      if (n == static_cast<int>(graph_.nodes.size()) || !needed_[at(s)][at(n)]) continue;
      Node node = graph_.nodes[at(n)];
      has_operator =
          has_operator || (node.phase == Phase::forward && stage_of_[at(n)] == s && !is_leaf(node));
      for (ValueId& v : node.operands) v = values[at(v.index)];
      if (node.forward.is_valid()) node.forward = nodes[at(node.forward.index)];
      for (std::size_t r = 0; r < node.results.size(); ++r)
        node.results[r] = add_value(node.results[r], static_cast<int>(r));
      nodes[at(n)] = {static_cast<int>(out.nodes.size())};
      out.nodes.push_back(std::move(node));
    }
    if (!has_operator) throw error("stage {} of {} has no operator", s, stages_);
    for (const Update& u : graph_.updates)
      if (needed_[at(s)][at(graph_.value(u.leaf).producer.index)])
        out.updates.push_back({values[at(u.leaf.index)], values[at(u.value.index)]});
    return out;
  }

  const Graph& graph_;
  std::vector<int> stage_of_;
  int stages_;
  std::vector<bool> is_wanted_;                       // by stage
  std::vector<std::vector<bool>> needed_;             // by stage, by node
  BatchDims batch_dims_;                              // of the whole network
  std::map<std::pair<ValueId, int>, int> crossings_;  // value and where it is received
  std::multimap<std::pair<int, int>, ValueId>
      received_;                              // by stage and the node in front of which it arrives
  std::vector<std::vector<ValueId>> values_;  // by stage: the values in its graph
  StagedGraph out_;
};

}  // namespace

StagedGraph cut_into_stages(const Graph& graph, const std::vector<int>& stage_of_node, int stages,
                            int micro_batches, const std::vector<int>& wanted) {
  Accumulated whole = accumulated(graph, micro_batches, stages > 1 ? stage_of_node : std::vector<int>{});
  if (stages == 1) {
    StagedGraph out;
    for (int i = 0; i < static_cast<int>(whole.graph.outputs.size()); ++i) out.outputs.push_back({0, i});
    out.stages.push_back(std::move(whole.graph));
    return out;
  }
  std::vector<int> stage_of = Assignment(whole.graph, whole.stages).result();
  Graph summed = with_sums_of_stages(std::move(whole.graph), stage_of);
  whole.stages.resize(summed.nodes.size());
  if (summed.nodes.size() > stage_of.size()) stage_of = Assignment(summed, whole.stages).result();
  return Cutting(summed, std::move(stage_of), stages, wanted).run();
}

bool makes(const Graph& part, std::string_view name) {
  return std::any_of(part.values.begin(), part.values.end(), [&](const Value& v) {
    return v.name == name && part.node(v.producer).op->kind != OpKind::receive;
  });
}

}  // namespace shardwright
