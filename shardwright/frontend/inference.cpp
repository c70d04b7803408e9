#include "shardwright/frontend/inference.h"

#include <algorithm>
#include <map>

#include "shardwright/base/error.h"
#include "shardwright/graph/builder.h"
#include "shardwright/runtime/hand_over.h"
#include "shardwright/runtime/session.h"

namespace shardwright {
namespace {

/// Copies what outputs need, with other values in place of those that training alone has.
class Asked {
 public:
  explicit Asked(const Graph& graph) : from_(graph), builder_(to_), values_(graph.values.size()) {
    for (NodeId id : from_.node_ids()) {
      const Node& node = from_.node(id);
      if (const auto& substitute = node.op->outside_training)
        replacing_[substitute->operand < 0 ? node.results[0] : node.operands[at(substitute->operand)]] = id;
    }
  }

  Graph of(const std::vector<ValueId>& outputs) {
    const std::vector<bool> needed = needed_for(outputs);
    for (const bool are_leaves :
         {true, false})  // leaves first: what is replaced reads those that stand behind it
      for (NodeId id : from_.node_ids()) {
        const Node& node = from_.node(id);
        const bool is_needed = std::ranges::any_of(node.results, [&](ValueId v) { return needed[at(v)]; });
        if (is_needed && node.operands.empty() == are_leaves) copy(node);
      }
    for (ValueId v : outputs) to_.outputs.push_back(values_[at(v)]);
    return std::move(to_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t at(ValueId v) { return at(v.index); }

  /// What a value is made of here.
  std::vector<ValueId> read_for(ValueId v) const {
    const auto it = replacing_.find(v);
    if (it == replacing_.end()) return from_.node(from_.value(v).producer).operands;
    const Node& node = from_.node(it->second);
    std::vector<ValueId> out;
    for (int operand : node.op->outside_training->reads) out.push_back(node.operands[at(operand)]);
    return out;
  }

  std::vector<bool> needed_for(std::vector<ValueId> open) const {
    std::vector<bool> needed(from_.values.size());
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (needed[at(v)]) continue;
      needed[at(v)] = true;
      for (ValueId read : read_for(v)) open.push_back(read);
    }
    return needed;
  }

  std::vector<ValueId> copies_of(const std::vector<ValueId>& values) const {
    std::vector<ValueId> out;
    for (ValueId v : values) out.push_back(values_[at(v)]);
    return out;
  }

  void copy(const Node& node) {
    const ValueId first = node.results[0];
    if (const auto it = replacing_.find(first); it != replacing_.end()) {
      values_[at(first)] =
          from_.node(it->second).op->outside_training->make(builder_, copies_of(read_for(first)));
      return;
    }
    const Value& value = from_.value(first);
    if (node.op->kind != OpKind::compute) {  // a constant has no operands either, but is computed
      values_[at(first)] = builder_.leaf(node.op->kind, value.name, value.type, node.attributes);
      return;
    }
    const std::vector<ValueId> made =
        builder_.call_all(*node.op, copies_of(node.operands), node.attributes, value.name);
    for (std::size_t r = 0; r < made.size(); ++r) values_[at(node.results[r])] = made[r];
  }

  const Graph& from_;
  Graph to_;
  Builder builder_;
  std::vector<ValueId> values_;  // of the copy, by value of the graph
  std::map<ValueId, NodeId> replacing_;
};

}  // namespace

Model inference_of(const Model& model, bool has_loss) {
  if (!model.graph.meshes.empty()) throw error("{} says itself how it is split, for training", model.name);
  std::vector<ValueId> outputs;
  for (ValueId v : model.graph.outputs)
    if (v != model.loss || has_loss) outputs.push_back(v);
  if (outputs.size() < (has_loss ? 2U : 1U)) throw error("{} has no output but its loss", model.name);
  Model out = model;
  out.graph = Asked(model.graph).of(outputs);
  out.loss = has_loss ? out.graph.outputs.front() : ValueId();
  return out;
}

void take_weights(Session& asked, const Session& trained) {
  const KeptValues& kept = asked.kept();
  for (const Kept& value : kept.all()) {
    if (&kept.parameter_of(value) != &value || kept.is_cache(value)) continue;
    hand_over(asked, trained, value.name);
  }
}

}  // namespace shardwright
