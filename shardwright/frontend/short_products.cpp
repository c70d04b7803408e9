#include "shardwright/frontend/short_products.h"

#include <algorithm>
#include <set>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool is_product(const Graph& graph, const Node& node) {
  return node.op->kind == OpKind::compute && work_kind(rule_of(graph, node)) != WorkKind::streaming;
}

class Shortening {
 public:
  Shortening(const Graph& from, DType full, DType brief)
      : from_(from),
        full_(full),
        short_(brief),
        users_(users_of(from)),
        held_(held_values(from)),
        values_(from.values.size()),
        shortened_(from.values.size()) {
    out_.meshes = from.meshes;
    for (const Value& v : from.values) names_.insert(v.name);
    for (const Node& node : from.nodes) is_product_.push_back(is_product(from, node));
  }

  Graph run() {
    for (NodeId id : from_.node_ids()) {
      const Node& node = from_.node(id);
      if (is_product_[at(id.index)])
        add_product(node);
      else if (node.op->kind == OpKind::parameter && is_read_by_products_only(node.results.front()))
        add_short_parameter(node);
      else
        add_as_it_was(node);
    }
    for (ValueId v : from_.outputs) out_.outputs.push_back(of(v));
    for (const Update& u : from_.updates) out_.updates.push_back({of(u.leaf), of(u.value)});
    return std::move(out_);
  }

 private:
  /// As whoever is no product reads it.
  ValueId of(ValueId v) {
    ValueId& out = values_[at(v.index)];
    if (!out.is_valid()) out = cast(shortened_[at(v.index)], full_);
    return out;
  }

  bool is_read_by_products_only(ValueId v) const {
    const auto& users = users_[at(v.index)];
    return from_.value(v).type.dtype == full_ && !held_[at(v.index)] && !users.empty() &&
           std::all_of(users.begin(), users.end(), [&](NodeId id) { return is_product_[at(id.index)]; });
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

  void add_short_parameter(const Node& old) {
    Node node = old;
    node.attributes.set(std::string(master_state), std::string(name_of(full_)));
    std::vector<Value> results = results_of(old);
    results.front().type.dtype = short_;
    shortened_[at(old.results.front().index)] = add(std::move(node), results).front();
  }

  /// Results keep their names; a product behind this one reads them as they are.
  void add_product(const Node& old) {
    Node node = old;
    for (ValueId& v : node.operands) v = from_.value(v).type.dtype == full_ ? shortened(v) : of(v);
    const std::vector<Type> types = infer(*node.op, {operand_types(out_, node), {}, node.attributes});
    std::vector<Value> results = results_of(old);
    for (std::size_t r = 0; r < results.size(); ++r) results[r].type = types[r];
    const std::vector<ValueId> fresh = add(std::move(node), results);
    for (std::size_t r = 0; r < fresh.size(); ++r) {
      const bool is_short = types[r] != from_.value(old.results[r]).type;
      (is_short ? shortened_ : values_)[at(old.results[r].index)] = fresh[r];
    }
  }

  ValueId shortened(ValueId v) {
    ValueId& out = shortened_[at(v.index)];
    if (!out.is_valid()) out = cast(of(v), short_);
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
  DType full_, short_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> held_, is_product_;  // by value, by node
  std::vector<ValueId> values_;          // by value of `from_`
  std::vector<ValueId> shortened_;       // the same, where products read it
  std::set<std::string> names_;
  Graph out_;
};

}  // namespace

Graph with_short_products(const Graph& graph, DType from, DType to) {
  return Shortening(graph, from, to).run();
}

Graph with_products_as(Graph graph, const Precision& precision) {
  return precision.products ? with_short_products(graph, precision.compute, *precision.products)
                            : std::move(graph);
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
    if (is_short_input || (is_product(graph, node) && !is_for_products(node.results.front())))
      return Precision::mixed(brief);
  }
  return Precision::products_in(brief);
}

}  // namespace shardwright
