#include "shardwright/frontend/mixed_precision.h"

#include <algorithm>
#include <set>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

bool is_product(const Graph& graph, const Node& node) {
  return node.op->kind == OpKind::compute && work_kind(rule_of(graph, node)) != WorkKind::streaming;
}

bool is_cast(const Graph& graph, const Node& node, DType from, DType to) {
  return node.op == &cast_op() && graph.value(node.operands.front()).type.dtype == from &&
         graph.value(node.results.front()).type.dtype == to;
}

/// A graph with some nodes, and the leaves that only these read, in another type.
class Retyping {
 public:
  /// `is_changed` by node: nodes of operands or results in `was` become ones in `is`.
  Retyping(const Graph& from, DType was, DType is, std::vector<bool> is_changed)
      : from_(from),
        was_(was),
        is_(is),
        is_changed_(std::move(is_changed)),
        users_(users_of(from)),
        held_(held_values(from)),
        values_(from.values.size()),
        changed_(from.values.size()) {
    out_.level = from.level;
    out_.meshes = from.meshes;
    for (const Value& v : from.values) names_.insert(v.name);
    for (const Update& u : from.updates) held_[at(u.leaf.index)] = true;
  }

  Graph run() {
    for (NodeId id : from_.node_ids()) {
      const Node& node = from_.node(id);
      if (is_changed_[at(id.index)])
        add_changed(node);
      else if (is_leaf_of_changed(node))
        add_changed_leaf(node);
      else if (is_cast(from_, node, was_, is_) && changed_[at(node.operands.front().index)].is_valid())
        values_[at(node.results.front().index)] = changed_[at(node.operands.front().index)];
      else
        add_as_it_was(node);
    }
    for (ValueId v : from_.outputs) out_.outputs.push_back(as_output(v));
    for (const Update& u : from_.updates) out_.updates.push_back({of(u.leaf), of(u.value)});
    return std::move(out_);
  }

 private:
  /// As whoever is not changed reads it.
  ValueId of(ValueId v) {
    ValueId& out = values_[at(v.index)];
    if (!out.is_valid()) out = cast(changed_[at(v.index)], was_);
    return out;
  }

  /// What is longer now goes out as it is.
  ValueId as_output(ValueId v) {
    const bool is_longer = !values_[at(v.index)].is_valid() && size_of(is_) > size_of(was_);
    return is_longer ? changed_[at(v.index)] : of(v);
  }

  /// Inputs become longer ones, so that labels are whole numbers, and are given as they are otherwise.
  bool is_leaf_of_changed(const Node& node) const {
    if (node.op->kind == OpKind::compute || !node.operands.empty()) return false;
    if (node.op->kind != OpKind::parameter && size_of(is_) < size_of(was_)) return false;
    const ValueId v = node.results.front();
    const auto& users = users_[at(v.index)];
    return from_.value(v).type.dtype == was_ && !held_[at(v.index)] && !users.empty() &&
           std::all_of(users.begin(), users.end(), [&](NodeId id) {
             return is_changed_[at(id.index)] || is_cast(from_, from_.node(id), was_, is_);
           });
  }

  std::vector<ValueId> add(Node node, const std::vector<Value>& results) {
    const NodeId id{static_cast<int>(out_.nodes.size())};
    node.results.clear();
    for (Value value : results) {
      value.producer = id;
      node.results.push_back({static_cast<int>(out_.values.size())});
      out_.values.push_back(std::move(value));
    }
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().results;
  }

  std::vector<Value> results_of(const Node& node) const {
    std::vector<Value> out;
    for (ValueId v : node.results) out.push_back(from_.value(v));
    return out;
  }

  void add_as_it_was(const Node& old) {
    Node node = old;
    for (ValueId& v : node.operands) v = of(v);
    const std::vector<ValueId> fresh = add(std::move(node), results_of(old));
    for (std::size_t r = 0; r < fresh.size(); ++r) values_[at(old.results[r].index)] = fresh[r];
  }

  /// A parameter that is shorter than it was has what it was as its master.
  void add_changed_leaf(const Node& old) {
    Node node = old;
    node.attributes = {};
    for (const auto& [key, value] : old.attributes)
      if (key != master_state) node.attributes.set(key, value);
    if (size_of(is_) < size_of(was_))
      node.attributes.set(std::string(master_state), std::string(name_of(was_)));
    std::vector<Value> results = results_of(old);
    results.front().type.dtype = is_;
    changed_[at(old.results.front().index)] = add(std::move(node), results).front();
  }

  /// Results keep their names; whoever is changed behind this one reads them as they are.
  void add_changed(const Node& old) {
    Node node = old;
    for (ValueId& v : node.operands) v = from_.value(v).type.dtype == was_ ? changed(v) : of(v);
    for (const char* key : {"dtype", "to"})  // what a node makes, if it says that
      if (const Attribute* a = old.attributes.find(key); a && *a == Attribute(std::string(name_of(was_))))
        node.attributes.set(key, std::string(name_of(is_)));
    const std::vector<Type> types = infer(*node.op, {operand_types(out_, node), {}, node.attributes});
    if (node.op == &cast_op() && types.front() == operand_types(out_, node).front()) {
      changed_[at(old.results.front().index)] = node.operands.front();
      return;
    }
    std::vector<Value> results = results_of(old);
    for (std::size_t r = 0; r < results.size(); ++r) results[r].type = types[r];
    const std::vector<ValueId> fresh = add(std::move(node), results);
    for (std::size_t r = 0; r < fresh.size(); ++r) {
      const bool is_other = types[r] != from_.value(old.results[r]).type;
      (is_other ? changed_ : values_)[at(old.results[r].index)] = fresh[r];
    }
  }

  ValueId changed(ValueId v) {
    ValueId& out = changed_[at(v.index)];
    if (!out.is_valid()) out = cast(of(v), is_);
    return out;
  }

  ValueId cast(ValueId v, DType to) {
    Node node{.op = &cast_op(), .operands = {v}};
    node.attributes.set("to", std::string(name_of(to)));
    const Value& from = out_.value(v);
    std::string name = fmt::format("{}.{}", from.name, name_of(to));
    for (int i = 2; !names_.insert(name).second; ++i)
      name = fmt::format("{}.{}_{}", from.name, name_of(to), i);
    return add(std::move(node), {Value{.name = std::move(name), .type = {to, from.type.shape}}}).front();
  }

  const Graph& from_;
  DType was_, is_;
  std::vector<bool> is_changed_;  // by node
  Users users_;
  std::vector<bool> held_;        // by value
  std::vector<ValueId> values_;   // by value of `from_`
  std::vector<ValueId> changed_;  // the same, in the other type
  std::set<std::string> names_;
  Graph out_;
};

std::vector<bool> products_of(const Graph& graph) {
  std::vector<bool> out;
  for (const Node& node : graph.nodes) out.push_back(is_product(graph, node));
  return out;
}

/// Nodes with results in `from` that reach the loss, and no product, through others of their kind: `to` is where a
/// loss begins that makes long numbers of short ones by itself.
std::vector<bool> nodes_of_loss(const Graph& graph, DType from, DType to) {
  const auto users = users_of(graph);
  const std::vector<bool> is_product = products_of(graph);
  const std::size_t count = graph.nodes.size();
  std::vector<bool> feeds_product(count), reaches_loss(count), is_of_loss(count);
  for (std::size_t n = count; n-- > 0;) {
    const Node& node = graph.nodes[n];
    bool has_type = false, is_wanted = false;
    for (ValueId v : node.results) {
      has_type = has_type || graph.value(v).type.dtype == from;
      if (v == graph.outputs.front()) reaches_loss[n] = is_wanted = true;
      for (NodeId user : users[at(v.index)]) {
        const std::size_t u = at(user.index);
        feeds_product[n] = feeds_product[n] || is_product[u] || feeds_product[u];
        reaches_loss[n] = reaches_loss[n] || reaches_loss[u];
        is_wanted =
            is_wanted || is_of_loss[u] || (reaches_loss[u] && is_cast(graph, graph.nodes[u], from, to));
      }
    }
    is_of_loss[n] =
        has_type && is_wanted && !feeds_product[n] && !is_product[n] && node.op->kind == OpKind::compute;
  }
  return is_of_loss;
}

}  // namespace

Graph with_short_products(const Graph& graph, DType from, DType to) {
  return Retyping(graph, from, to, products_of(graph)).run();
}

Graph with_full_loss(const Graph& graph, DType from, DType to) {
  return Retyping(graph, from, to, nodes_of_loss(graph, from, to)).run();
}

Graph with_precision(Graph graph, const Precision& precision) {
  if (precision.products) return with_short_products(graph, precision.compute, *precision.products);
  return precision.is_mixed ? with_full_loss(graph, precision.compute, precision.kept()) : std::move(graph);
}

Precision precision_of(const Graph& graph, ValueId loss) {
  const DType of_loss = graph.value(loss).type.dtype;
  const auto kept = std::find_if(graph.nodes.begin(), graph.nodes.end(), has_master);
  if (kept == graph.nodes.end() || of_loss != DType::f32) return of_loss;
  const DType brief = graph.value(kept->results.front()).type.dtype;
  const auto users = users_of(graph);
  const auto is_for_products = [&](ValueId v) {
    return std::all_of(users[at(v.index)].begin(), users[at(v.index)].end(), [&](NodeId id) {
      const Node& reader = graph.node(id);
      return is_product(graph, reader) ||
             (reader.op == &cast_op() && graph.value(reader.results.front()).type.dtype == of_loss);
    });
  };
  for (const Node& node : graph.nodes) {
    const bool is_short_input =
        node.op->kind == OpKind::input && graph.value(node.results.front()).type.dtype == brief;
    const bool is_of_products = is_product(graph, node) || has_master(node);
    if (is_short_input || (is_of_products && !is_for_products(node.results.front())))
      return Precision::mixed(brief);
  }
  return Precision::products_in(brief);
}

}  // namespace shardwright
