#include "shardwright/lower/spmd.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/expand.h"

namespace shardwright {
namespace {

/// One form in which a logical value exists in the program.
struct Copy {
  Layout layout;
  ValueId value;
  Phase phase;
  bool is_gathered_again = false;  // by the backward, which does not find it
};

class Lowering {
 public:
  Lowering(const Graph& graph, Redistributor& redistributor)
      : graph_(graph),
        redistributor_(redistributor),
        calls_(graph),
        copies_(graph.values.size()),
        new_node_(graph.nodes.size()),
        is_named_(graph.values.size(), false),
        leaves_(graph.values.size(), false),
        leaf_of_(graph.values.size()) {
    out_.level = Level::program;
    out_.meshes = graph.meshes;
    for (const Value& v : graph.values) names_.insert(v.name);
    for (const auto* values : {&graph.outputs, &graph.sends})
      for (ValueId v : *values) leaves_[at(v.index)] = true;
    for (const Update& u : graph.updates)
      if (ValueId& leaf = leaf_of_[at(u.value.index)]; !leaf.is_valid()) leaf = u.leaf;
  }

  Program run() {
    bool is_in_update = false;
    for (NodeId id : graph_.node_ids()) {
      if (graph_.node(id).phase == Phase::update && !std::exchange(is_in_update, true)) send_sums();
      try {
        if (graph_.node(id).op->kind == OpKind::compute)
          add_compute(id);
        else
          add_leaf(id);
      } catch (const Error& e) {
        throw with_context(e, graph_.name_of(id));
      }
    }
    owner_ = {};
    if (!graph_.updates.empty()) phase_ = Phase::update;
    for (const Update& u : graph_.updates) {
      const Layout& layout = *graph_.value(u.leaf).layout;
      out_.updates.push_back({copies_[at(u.leaf.index)].front().value, obtain(u.value, layout)});
    }
    for (ValueId v : graph_.outputs) out_.outputs.push_back(obtain(v, output_layout(v)));
    for (ValueId v : graph_.sends) out_.sends.push_back(obtain(v, output_layout(v)));
    return {.graph = std::move(out_)};
  }

 private:
  /// What is added up over micro-batches, in front of all that the update receives: another stage may wait for it, and
  /// answer with that.
  void send_sums() {
    phase_ = Phase::update;
    owner_ = {};
    for (ValueId v : graph_.sends)
      if (is_accumulation(graph_, graph_.node(graph_.value(v).producer))) obtain(v, output_layout(v));
  }

  /// Asked for, or else as produced but reduced.
  Layout output_layout(ValueId v) const {
    if (graph_.value(v).layout) return *graph_.value(v).layout;
    return reduced(copies_[at(v.index)].front().layout);
  }

  std::string fresh_name() {
    std::string name;
    do name = std::to_string(next_name_++);
    while (names_.contains(name));
    return name;
  }

  /// The value that carries the logical name is the first that is neither partial nor has a halo.
  std::string name_for(ValueId logical, const Layout& layout) {
    if (layout.is_partial() || layout.has_halo() || is_named_[at(logical.index)]) return fresh_name();
    is_named_[at(logical.index)] = true;
    return graph_.value(logical).name;
  }

  ValueId add_value(ValueId logical, const Layout& layout, NodeId producer, int result) {
    const Value& from = graph_.value(logical);
    const Mesh& mesh = out_.meshes[at(layout.mesh)];
    Value v{.name = name_for(logical, layout), .type = from.type, .producer = producer, .result = result};
    check(layout, mesh, from.type.shape);
    v.type.shape = largest_local_shape(layout, mesh, from.type.shape);
    v.layout = layout;
    v.global_shape = from.type.shape;
    for (ValueId of : from.gradient_of) v.gradient_of.push_back(copies_[at(of.index)].front().value);
    const ValueId id{static_cast<int>(out_.values.size())};
    out_.values.push_back(std::move(v));
    return id;
  }

  void add_leaf(NodeId id) {
    Node node = graph_.node(id);
    phase_ = node.phase;
    const ValueId logical = node.results.front();
    const NodeId fresh{static_cast<int>(out_.nodes.size())};
    const Layout layout = *graph_.value(logical).layout;
    node.results = {add_value(logical, layout, fresh, 0)};
    copies_[at(logical.index)].push_back({layout, node.results.front(), phase_});
    new_node_[at(id.index)] = fresh;
    out_.nodes.push_back(std::move(node));
  }

  void add_compute(NodeId id) {
    Node node = graph_.node(id);
    phase_ = node.phase;
    owner_ = node.owner;
    require(node.strategy.has_value(), "{} has no strategy", graph_.name_of(id));
    const Rule& rule = calls_.rule(id);
    if (const auto why = violation(rule, *node.strategy, out_.meshes[at(node.strategy->mesh)]))
      throw Error(*why);
    const NodeLayouts layouts = layouts_of(rule, *node.strategy);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      node.operands[i] = obtain(node.operands[i], layouts.operands[i]);
    const std::vector<ValueId> logical = node.results;
    const NodeId fresh{static_cast<int>(out_.nodes.size())};
    for (std::size_t i = 0; i < logical.size(); ++i)
      node.results[i] = add_value(logical[i], layouts.results[i], fresh, static_cast<int>(i));
    const std::vector<ValueId> results = node.results;
    if (node.forward.is_valid()) node.forward = new_node_[at(node.forward.index)];
    new_node_[at(id.index)] = fresh;
    out_.nodes.push_back(std::move(node));
    for (std::size_t i = 0; i < logical.size(); ++i) {
      copies_[at(logical[i].index)].push_back({layouts.results[i], results[i], phase_});
      // What is added up over micro-batches is sent once, by the update.
      const bool is_given = leaves_[at(logical[i].index)] && !is_accumulation(graph_, graph_.node(id));
      if (graph_.value(logical[i]).layout || is_given) obtain(logical[i], output_layout(logical[i]));
      // A state that the forward changes is there for the next micro-batch.
      const ValueId leaf = leaf_of_[at(logical[i].index)];
      if (leaf.is_valid() && phase_ != Phase::update) obtain(logical[i], *graph_.value(leaf).layout);
    }
  }

  bool is_usable(ValueId logical, const Copy& copy) const {
    const bool is_original = &copy == &copies_[at(logical.index)].front();
    if (is_original || copy.phase == phase_) return true;
    if (graph_.node(graph_.value(logical).producer).op->kind == OpKind::parameter) return false;
    return phase_ != Phase::backward || !copy.is_gathered_again;
  }

  /// `logical` in `layout`, from whichever of its copies is nearest.
  ValueId obtain(ValueId logical, const Layout& layout) {
    const Type& type = graph_.value(logical).type;
    const Redistribution* best = nullptr;
    ValueId from;
    for (const Copy& copy : copies_[at(logical.index)]) {
      if (!is_usable(logical, copy) || (copy.layout.has_halo() && copy.layout != layout)) continue;
      const Redistribution& r = redistributor_.find(copy.layout, layout, type);
      if (best && r.seconds >= best->seconds) continue;
      best = &r;
      from = copy.value;
    }
    for (const Step& step : best->steps) from = add_step(logical, step, from);
    return from;
  }

  ValueId add_step(ValueId logical, const Step& step, ValueId from) {
    Node node{.operands = {from}, .results = {}, .attributes = {}, .phase = phase_};
    set_step(node, step, out_.meshes);
    const NodeId maker = graph_.node(graph_.value(logical).producer).owner;
    node.owner = is_reducing(step.kind) || !owner_.is_valid() ? maker : owner_;
    const NodeId fresh{static_cast<int>(out_.nodes.size())};
    node.results = {add_value(logical, step.to, fresh, 0)};
    copies_[at(logical.index)].push_back(
        {step.to, node.results.front(), phase_,
         phase_ == Phase::forward && is_gathered_again(step, graph_.value(logical).type, redistributor_)});
    const ValueId result = node.results.front();
    out_.nodes.push_back(std::move(node));
    return result;
  }

  const Graph& graph_;
  Redistributor& redistributor_;
  const Calls calls_;
  Graph out_;
  std::vector<std::vector<Copy>> copies_;  // per logical value, the original first
  std::vector<NodeId> new_node_;
  std::vector<bool> is_named_;
  std::vector<bool> leaves_;      // per logical value: it is an output or sent
  std::vector<ValueId> leaf_of_;  // per logical value: the first that it updates
  Phase phase_ = Phase::forward;
  NodeId owner_;                           // of the node whose operands are obtained
  std::unordered_set<std::string> names_;  // of the logical values
  int next_name_ = 1;
};

}  // namespace

bool is_gathered_again(const Step& step, const Type& type, Redistributor& redistributor) {
  if (std::ranges::any_of(step.to.windows, &Window::goes_round)) return true;
  return step.kind == StepKind::all_gather &&
         redistributor.find(step.from, step.to, type).seconds > 2 * redistributor.latency(step, 0);
}

Program lower(const Graph& graph, Redistributor& redistributor, std::int64_t order) {
  require(graph.level == Level::planned, "a planned graph is lowered, not a {}", name_of(graph.level));
  if (!has_to_be_expanded(graph, order)) return Lowering(graph, redistributor).run();
  const Graph parts = expanded(graph, order).graph;
  return Lowering(parts, redistributor).run();
}

}  // namespace shardwright
