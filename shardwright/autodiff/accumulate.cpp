#include "shardwright/autodiff/accumulate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "shardwright/autodiff/graph_copy.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/row_updates.h"

namespace shardwright {
namespace {

class Accumulation {
 public:
  Accumulation(const Graph& graph, int micro_batches, const std::vector<int>& stages)
      : graph_(graph), users_(users_of(graph)), micro_batches_(micro_batches), stages_(stages), copy_(graph) {
    for (const Value& v : graph.values) names_.insert(v.name);
  }

  Accumulated run() {
    find_gradients();
    find_moved();
    std::vector<NodeId> sums;  // of what several stages contribute: they wait for the update
    bool is_update = false;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase == Phase::update && !std::exchange(is_update, true)) {
        round_sums();
        for (NodeId sum : sums) copy_.add(sum, Phase::update);
      }
      if (is_late_[at(id.index)]) {
        sums.push_back(id);
        continue;
      }
      copy_.add(id, node.phase);
      if (is_seed(id)) scale_seed(node);
      if (counts_micro_batches(node))
        copy_.graph().nodes.back().attributes.set(std::string(micro_batches_attribute),
                                                  std::int64_t{micro_batches_});
      if (is_moved_[at(node.results.front().index)]) read_copy_of(node.results.front());
      for (ValueId v : node.results)
        if (is_read_as_well_[at(v.index)]) keep_copy_of(v);
      for (ValueId v : node.results) {
        if (const auto it = of_parameter_.find(v); it != of_parameter_.end()) accumulate(v, it->second);
        if (const auto it = ids_of_rows_.find(v); it != ids_of_rows_.end()) keep_rows(v, it->second);
        if (is_of_all_rows_[at(v.index)]) copy_.graph().value(copy_.of(v)).type.shape[0] *= micro_batches_;
      }
    }
    Graph out = copy_.finish();
    out.updates.insert(out.updates.end(), updates_.begin(), updates_.end());
    std::vector<int> stages = stages_of(out);
    return {std::move(out), std::move(stages)};
  }

 private:
  bool is_parameter(ValueId v) const {
    return graph_.node(graph_.value(v).producer).op->kind == OpKind::parameter;
  }

  /// By another node than the one that makes `next`.
  bool is_read_before_update(ValueId v, ValueId next) const {
    const std::span<const NodeId> readers = users_[at(v.index)];
    return std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
      const Node& node = graph_.node(id);
      return node.phase != Phase::update &&
             std::find(node.results.begin(), node.results.end(), next) == node.results.end();
    });
  }

  bool is_output(ValueId v) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
  }

  /// Somebody else has part in the memory of what a state holds next.
  bool is_read_as_well(ValueId next) const {
    const Node& made = graph_.node(graph_.value(next).producer);
    const auto takers = std::count_if(graph_.updates.begin(), graph_.updates.end(),
                                      [next](const Update& u) { return u.value == next; });
    return made.op->kind != OpKind::compute || made.op->is_alias || takers > 1 ||
           is_read_before_update(next, {});
  }

  /// States that move on with each micro-batch: those that are read for more than to make their next value, and next
  /// values that are read. In the backward of a micro-batch the state may hold what later ones have made.
  void find_moved() {
    is_moved_.assign(graph_.values.size(), false);
    is_read_as_well_.assign(graph_.values.size(), false);
    counter_ = existing_step_count(graph_);
    if (counter_.is_valid()) is_moved_[at(counter_.index)] = is_read_before_update(counter_, {});
    for (const Update& u : graph_.updates)
      if (graph_.node(graph_.value(u.value).producer).phase == Phase::forward) {
        is_moved_[at(u.leaf.index)] = is_read_before_update(u.leaf, u.value) || is_output(u.leaf);
        is_read_as_well_[at(u.value.index)] = is_read_as_well(u.value);
      }
  }

  /// Reads the count, of steps so far.
  bool counts_micro_batches(const Node& node) const {
    const std::vector<std::string>& known = node.op->attributes;
    return counter_.is_valid() && is_moved_[at(counter_.index)] && node.phase != Phase::update &&
           std::find(node.operands.begin(), node.operands.end(), counter_) != node.operands.end() &&
           std::find(known.begin(), known.end(), micro_batches_attribute) != known.end();
  }

  /// Forward and backward of a micro-batch find the state `v` as it was before that forward.
  void read_copy_of(ValueId v) {
    Builder builder(copy_.graph());
    ValueId moved = copy_.of(v);
    if (v == counter_) {
      moved = builder.leaf(OpKind::state, micro_batch_count, graph_.value(v).type, {{"init", "zeros"}});
      updates_.push_back({moved, shifted(builder, moved, 1, std::string(micro_batch_count) + ".next")});
    }
    copy_.replace_before_update(
        v, shifted(builder, moved, 0, free_name(copy_.graph().value(moved).name + ".now")));
  }

  void keep_copy_of(ValueId next) {
    Builder builder(copy_.graph());
    copy_.keep(next, shifted(builder, copy_.of(next), 0, free_name(graph_.value(next).name + ".kept")));
  }

  /// `name`, or `name_2` and so on if there is one.
  std::string free_name(const std::string& name) {
    std::string out = name;
    for (int n = 2; !names_.insert(out).second; ++n) out = fmt::format("{}_{}", name, n);
    return out;
  }

  /// Of all nodes of `out`.
  std::vector<int> stages_of(const Graph& out) const {
    if (stages_.empty()) return {};
    std::vector<int> stages(out.nodes.size(), -1);
    std::vector<bool> is_new(out.nodes.size(), true);
    for (NodeId id : graph_.node_ids()) {
      stages[at(copy_.of(id).index)] = stages_[at(id.index)];
      is_new[at(copy_.of(id).index)] = false;
    }
    for (NodeId id : out.node_ids())
      for (ValueId v : out.node(id).operands)
        if (int& of_new = stages[at(out.value(v).producer.index)]; of_new < 0) of_new = stages[at(id.index)];
    for (NodeId id : out.node_ids())  // what only leaves take
      if (const Node& node = out.node(id);
          is_new[at(id.index)] && stages[at(id.index)] < 0 && !node.operands.empty())
        stages[at(id.index)] = stages[at(out.value(node.operands.front()).producer.index)];
    return stages;
  }

  /// Values that differ from micro-batch to micro-batch, as far as they come from inputs; and all gradients, which are
  /// a micro-batch's share even where they are the same for each.
  std::vector<bool> find_changing() const {
    std::vector<bool> changing(graph_.values.size());
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      bool changes = node.op->kind == OpKind::input || is_seed(id);
      for (ValueId v : node.operands) changes = changes || changing[at(v.index)];
      for (ValueId v : node.results) changing[at(v.index)] = changes;
    }
    return changing;
  }

  /// Gradients that are rows of a table: they and their ids are kept one behind the other, and what the update makes of them
  /// is of all of them.
  void find_rows() {
    is_of_all_rows_.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      const auto read = node.phase == Phase::update ? row_operands(node) : std::nullopt;
      if (!read) continue;
      ValueId rows = node.operands[read->rows];
      while (graph_.node(graph_.value(rows).producer).phase == Phase::update) {
        is_of_all_rows_[at(rows.index)] = true;
        rows = graph_.node(graph_.value(rows).producer).operands.front();
      }
      ids_of_rows_[rows].insert(node.operands[read->ids]);
      kept_.insert({rows, node.operands[read->ids]});
    }
  }

  void find_gradients() {
    find_rows();
    is_late_.assign(graph_.nodes.size(), false);
    const std::vector<bool> changing = find_changing();
    for (NodeId id : graph_.node_ids()) {
      if (graph_.node(id).phase != Phase::update) continue;
      for (ValueId v : graph_.node(id).operands) {
        const Value& value = graph_.value(v);
        if (graph_.node(value.producer).phase == Phase::update || !changing[at(v.index)] || kept_.contains(v))
          continue;
        const auto parameter = std::find_if(value.gradient_of.begin(), value.gradient_of.end(),
                                            [this](ValueId p) { return is_parameter(p); });
        if (parameter == value.gradient_of.end())
          throw error(
              "%{} is read by the update but is no gradient, so it cannot be added up over {} micro-batches",
              value.name, micro_batches_);
        add_gradient(v, *parameter);
      }
    }
  }

  void add_gradient(ValueId v, ValueId parameter) {
    const NodeId producer = graph_.value(v).producer;
    const Node& node = graph_.node(producer);
    // What the backward reads as well (a parameter of the size of what it is added to has its gradient) cannot wait.
    if (node.op != &sum_op() || is_read_before_update(v, {}) || !are_apart(node.operands)) {
      of_parameter_.emplace(v, parameter);
      return;
    }
    is_late_[at(producer.index)] = true;
    for (ValueId addend : node.operands) of_parameter_.emplace(addend, parameter);
  }

  /// Addends of a gradient that different stages compute.
  bool are_apart(const std::vector<ValueId>& addends) const {
    if (stages_.empty()) return false;
    const auto stage = [this](ValueId v) {
      const Node* node = &graph_.node(graph_.value(v).producer);
      while (!node->forward.is_valid() && node->operands.size() == 1)  // the same in another type
        node = &graph_.node(graph_.value(node->operands.front()).producer);
      return node->forward.is_valid() ? stages_[at(node->forward.index)] : -1;
    };
    return std::any_of(addends.begin(), addends.end(),
                       [&](ValueId v) { return stage(v) != stage(addends.front()); });
  }

  bool is_seed(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto& of = graph_.value(node.results.front()).gradient_of;
    return node.phase == Phase::backward && node.operands.empty() &&
           std::find(of.begin(), of.end(), graph_.outputs.front()) != of.end();
  }

  /// The seed of a whole batch is 1.
  void scale_seed(const Node& seed) {
    Graph& graph = copy_.graph();
    graph.nodes.back().attributes.set("value", seed.attributes.number("value", 1) / micro_batches_);
  }

  void keep_rows(ValueId rows, const std::set<ValueId>& ids) {
    push(rows);
    for (ValueId v : ids)
      if (kept_ids_.insert(v).second) push(v);
  }

  void push(ValueId v) {
    const Value& value = graph_.value(v);
    Type type = value.type;
    type.shape[0] *= micro_batches_;
    const auto add = [&](const OpDef& op, std::vector<ValueId> operands, const char* name) {
      return copy_
          .add({.op = &op, .operands = std::move(operands), .phase = Phase::backward},
               {{.name = free_name(value.name + name), .type = type}})
          .front();
    };
    const ValueId leaf = add(op_of(OpKind::accumulator), {}, ".kept");
    const ValueId all = add(push_op(), {leaf, copy_.of(v)}, ".all");
    copy_.accumulate(v, all);
    updates_.push_back({leaf, all});
  }

  void accumulate(ValueId gradient, ValueId parameter) {
    const std::string& name = graph_.value(parameter).name;
    Type type = graph_.value(gradient).type;
    const ValueId weight = copy_.of(parameter);
    ValueId fresh = copy_.of(gradient);
    const bool is_short = size_of(type.dtype) < sizeof(float);
    if (is_short) {
      type.dtype = DType::f32;
      fresh = cast(fresh, type.dtype, Phase::backward, name + ".gradient", weight);
    }
    const ValueId leaf =
        copy_
            .add({.op = &op_of(OpKind::accumulator), .phase = Phase::backward},
                 {{.name = free_name(name + ".accumulator"), .type = type, .gradient_of = {weight}}})
            .front();
    const ValueId sum =
        copy_
            .add({.op = &sum_op(), .operands = {leaf, fresh}, .phase = Phase::backward},
                 {{.name = free_name(name + ".accumulated"), .type = type, .gradient_of = {weight}}})
            .front();
    copy_.accumulate(gradient, sum);
    if (is_short) short_.push_back({gradient, sum});
    updates_.push_back({leaf, sum});
  }

  /// What the update reads of sums that are kept longer than the gradients are.
  void round_sums() {
    for (const auto& [gradient, sum] : short_) {
      const Value kept = copy_.graph().value(sum);
      copy_.accumulate(gradient, cast(sum, graph_.value(gradient).type.dtype, Phase::update,
                                      kept.name + ".short", kept.gradient_of.front()));
    }
  }

  ValueId cast(ValueId v, DType dtype, Phase phase, const std::string& name, ValueId weight) {
    if (!builder_) builder_.emplace(copy_.graph());
    builder_->set_phase(phase);
    const ValueId out = cast_to(*builder_, v, dtype, free_name(name));
    copy_.graph().value(out).gradient_of = {weight};
    return out;
  }

  const Graph& graph_;
  Users users_;  // per value
  int micro_batches_;
  const std::vector<int>& stages_;
  GraphCopy copy_;
  std::map<ValueId, ValueId> of_parameter_;           // what is accumulated, and whose gradient it is
  std::map<ValueId, std::set<ValueId>> ids_of_rows_;  // of gradients that are rows
  std::set<ValueId> kept_;                            // these rows and ids
  std::set<ValueId> kept_ids_;                        // ids for which there is a leaf
  std::vector<bool> is_of_all_rows_;                  // per value: made by the update of such rows
  std::vector<bool> is_late_;                         // per node: sums that the update makes
  std::vector<Update> updates_;
  struct ShortSum {
    ValueId gradient, sum;
  };
  std::vector<ShortSum> short_;            // gradients that are added up in a longer type
  std::optional<Builder> builder_;         // of casts, once there are any
  ValueId counter_;                        // of the steps done
  std::vector<bool> is_moved_;             // per value
  std::vector<bool> is_read_as_well_;      // per value that a leaf takes
  std::unordered_set<std::string> names_;  // of values, old and new
};

}  // namespace

Accumulated accumulated(const Graph& graph, int micro_batches, const std::vector<int>& stages) {
  if (micro_batches == 1) return {graph, stages};
  return Accumulation(graph, micro_batches, stages).run();
}

bool is_accumulation(const Graph& graph, const Node& node) {
  return !node.operands.empty() &&
         graph.node(graph.value(node.operands.front()).producer).op->kind == OpKind::accumulator;
}

}  // namespace shardwright
