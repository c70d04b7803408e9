#include "shardwright/graph/verify.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_set>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

bool exists(const Graph& graph, ValueId v) {
  return v.is_valid() && v.index < static_cast<int>(graph.values.size());
}

void check_layout(const Graph& graph, const Value& v) {
  if (!v.layout) return;
  if (v.layout->mesh < 0 || v.layout->mesh >= static_cast<int>(graph.meshes.size()))
    throw error("%{}: the layout is on mesh {} but there are {} meshes", v.name, v.layout->mesh,
                graph.meshes.size());
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(v.layout->mesh)];
  const Shape shape = v.global_type().shape;
  check(*v.layout, mesh, shape);
  if (v.global_shape.empty()) return;  // the whole tensor: not a program
  const Shape local = largest_local_shape(*v.layout, mesh, shape);
  if (v.type.shape != local)
    throw error("%{}: layout {} of {} gives {} but {} is written", v.name, to_text(*v.layout, mesh),
                to_text(shape), to_text(local), to_text(v.type.shape));
}

/// Dims of a received value along which a batch lies.
void check_batch(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::receive || !node.attributes.find("batch")) return;
  const Value& v = graph.value(node.results.front());
  const auto rank = static_cast<std::int64_t>(v.type.shape.size());
  const auto dims = node.attributes.integers("batch");
  for (std::int64_t d : dims)
    if (d < 0 || d >= rank || std::count(dims.begin(), dims.end(), d) > 1)
      throw error("%{}: batch {} should name dims of {}, each once", v.name, d, to_text(v.type));
}

void check_format(const Value& v) {
  if (!fits(v.format, v.type.shape))
    throw error("%{}: {} cannot lie in {}: blocks divide their dim", v.name, to_text(v.type),
                to_text(v.format));
}

/// A step that names experts reads the ids of rows, too.
bool may_be_routed(const Node& node) {
  return (node.op->step == StepKind::all_gather || node.op->step == StepKind::reduce_scatter) &&
         node.attributes.find("experts");
}

/// The ids are those of the rows of its operand.
void check_routing(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Type rows = graph.value(node.operands[0]).global_type(),
             ids = graph.value(node.operands[1]).global_type();
  const bool are_ids = (ids.dtype == DType::i32 || ids.dtype == DType::i64) && ids.shape.size() > 1 &&
                       ids.shape.size() == rows.shape.size() &&
                       std::equal(ids.shape.begin(), ids.shape.end() - 1, rows.shape.begin());
  const Value& to = graph.value(node.results.front());
  if (!are_ids || node.attributes.integer("experts", 0) < 1 || !to.layout)
    throw error("{}: rows of {} cannot go to {} experts by {}", graph.name_of(id), to_text(rows),
                node.attributes.integer("experts", 0), to_text(ids));
  const auto& from = graph.value(node.operands.front()).layout;
  const std::string among = node.attributes.text("among", "");  // a scanner reads where its text stands
  Scanner in(among);
  parse_axes(in, graph.meshes[static_cast<std::size_t>(std::max(from ? from->mesh : 0, to.layout->mesh))]);
}

void check_operands(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::size_t wanted = node.op->kind == OpKind::step ? 1 + may_be_routed(node) : 0;
  if (node.op->kind != OpKind::compute && (node.results.size() != 1 || node.operands.size() != wanted))
    throw error("{}: {} has {} operands and {} results", graph.name_of(id), node.op->name,
                node.operands.size(), node.results.size());
  for (ValueId v : node.operands) {
    if (!exists(graph, v)) throw error("{}: an operand does not exist", graph.name_of(id));
    if (graph.value(v).producer >= id)
      throw error("{}: operand %{} is used before it is defined", graph.name_of(id), graph.value(v).name);
    if (graph.node(graph.value(v).producer).phase > node.phase)
      throw error("{}: a {} node uses %{} of the {} phase", graph.name_of(id), name_of(node.phase),
                  graph.value(v).name, name_of(graph.node(graph.value(v).producer).phase));
  }
}

void check_results(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool is_step = node.op->kind == OpKind::step;
  if (node.op->kind != OpKind::compute && !is_step) return;
  const std::vector<Type> operands = operand_types(graph, node);
  if (node.operands.size() > 1 && is_step) check_routing(graph, id);
  // A step keeps the tensor and changes only its layout.
  const std::vector<Type> want =
      is_step ? std::vector{operands.front()} : infer(*node.op, {operands, {}, node.attributes});
  const std::vector<Type> have = result_types(graph, node);
  if (want.size() != have.size())
    throw error("{}: {} has {} results but {} are written", graph.name_of(id), node.op->name, want.size(),
                have.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    if (want[i] != have[i])
      throw error("{}: {} gives {} but {} is written", graph.name_of(id), node.op->name, to_text(want[i]),
                  to_text(have[i]));
}

/// What is kept or handed out is whole or sharded, but not a sum to be made.
void check_kept(const Graph& graph, ValueId id, std::string_view what) {
  const Value& v = graph.value(id);
  if (v.layout && v.layout->is_partial())
    throw error("%{} is {} and cannot be partial: {}", v.name, what,
                to_text(*v.layout, graph.meshes[static_cast<std::size_t>(v.layout->mesh)]));
}

void check_strategy(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.strategy || node.op->kind != OpKind::compute) return;
  if (node.strategy->mesh < 0 || node.strategy->mesh >= static_cast<int>(graph.meshes.size()))
    throw error("{}: the strategy is on mesh {} but there are {} meshes", graph.name_of(id),
                node.strategy->mesh, graph.meshes.size());
  const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
  const std::shared_ptr<const Rule> rule = shared_rule_of(graph, node);
  if (const auto why = graph.level == Level::program ? violation(*rule, *node.strategy, mesh)
                                                     : violation_as_asked(*rule, *node.strategy, mesh))
    throw error("{}: {}", graph.name_of(id), *why);
}

/// A fused step is the same collective over the same axes as the one above it, of another tensor.
void check_fused_step(const Graph& graph, NodeId id) {
  const Node &node = graph.node(id), &above = graph.node({id.index - 1});
  if (is_local(*node.op->step))
    throw error("{}: {} moves nothing between ranks and cannot be fused", graph.name_of(id), node.op->name);
  if (node.op != above.op || node.phase != above.phase ||
      node.attributes.text("over", "") != above.attributes.text("over", "") ||
      graph.value(node.results.front()).layout->mesh != graph.value(above.results.front()).layout->mesh)
    throw error("{}: {} over {} cannot run as one with {} over {} above it", graph.name_of(id), node.op->name,
                node.attributes.text("over", "nothing"), above.op->name,
                above.attributes.text("over", "nothing"));
  for (NodeId other{id.index - 1};; --other.index) {
    for (ValueId v : graph.node(other).results)
      if (std::find(node.operands.begin(), node.operands.end(), v) != node.operands.end())
        throw error("{}: it runs as one with %{} and cannot read it", graph.name_of(id), graph.value(v).name);
    if (!graph.node(other).is_fused) break;
  }
}

/// A fused node works on the same elements as the nodes that it runs with.
void check_fused(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.is_fused) return;
  if (id.index == 0) throw error("{}: a fused node needs a node above it", graph.name_of(id));
  if (node.op->kind == OpKind::step) return check_fused_step(graph, id);
  if (!node.op->block)
    throw error("{}: {} is not point-wise and cannot be fused", graph.name_of(id), node.op->name);
  const Node& above = graph.node({id.index - 1});
  if (!above.op->block && !above.op->is_made_by_rows)
    throw error("{}: nothing can be fused to %{} = {}", graph.name_of(id), graph.name_of({id.index - 1}),
                above.op->name);
  const Value& first = graph.value(above.results.front());
  for (ValueId v : node.results)
    if (!lie_alike(graph.value(v), first))
      throw error("{}: %{} does not lie as %{} above it and cannot be fused", graph.name_of(id),
                  graph.value(v).name, first.name);
}

/// What a node differentiates is an operator above it.
void check_differentiated(const Graph& graph, NodeId id) {
  const NodeId forward = graph.node(id).forward;
  if (!forward.is_valid()) return;
  if (forward.index >= id.index || graph.node(forward).op->kind != OpKind::compute)
    throw error("{}: of %{}: it is no operator above, and nothing differentiates it", graph.name_of(id),
                graph.name_of(forward));
}

/// What only a program has.
void check_level(const Graph& graph, const Node& node) {
  if (graph.level == Level::program) return;
  const auto refuse = [&](const std::string& what) {
    throw error("%{} {}: only programs have that, and this is a {}", graph.value(node.results.front()).name,
                what, name_of(graph.level));
  };
  if (node.op->kind == OpKind::step) refuse(fmt::format("= {}", node.op->name));
  if (node.is_fused) refuse("is fused ('+')");
  for (ValueId v : node.results) {
    const Value& value = graph.value(v);
    if (!value.format.is_row_major()) refuse(fmt::format("lies in {}", to_text(value.format)));
    if (!value.global_shape.empty()) refuse(fmt::format("is a part of {}", to_text(value.global_shape)));
    if (graph.level == Level::network && value.layout)
      throw error("%{} has a layout, but the graph has no mesh", value.name);
  }
  if (graph.level == Level::network && node.strategy)
    throw error("{} has a strategy, but the graph has no mesh", graph.value(node.results.front()).name);
}

}  // namespace

void verify(const Graph& graph) {
  if (graph.level == Level::network && !graph.meshes.empty()) throw error("a network has no mesh");
  std::unordered_set<std::string_view> names;
  for (const Value& v : graph.values) {
    if (!names.insert(v.name).second) throw error("%{} is defined twice", v.name);
    check_layout(graph, v);
    check_format(v);
  }
  Phase phase = Phase::forward;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase < phase)
      throw error("{}: a {} node stands behind the {} phase", graph.name_of(id), name_of(node.phase),
                  name_of(phase));
    phase = node.phase;
    check_level(graph, node);
    if (node.is_recomputed && !is_backward(node.phase))
      throw error("{}: only the backward recomputes", graph.name_of(id));
    if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step &&
        node.op->kind != OpKind::accumulator)
      check_kept(graph, node.results.front(), node.op->name);
    check_operands(graph, id);
    check_differentiated(graph, id);
    check_results(graph, id);
    check_batch(graph, node);
    check_strategy(graph, id);
    check_fused(graph, id);
  }
  for (ValueId v : graph.outputs) {
    if (!exists(graph, v)) throw error("an output does not exist");
    check_kept(graph, v, "an output");
  }
  for (ValueId v : graph.sends) {
    if (!exists(graph, v)) throw error("a value that is sent does not exist");
    check_kept(graph, v, "sent to another stage");
  }
  std::set<ValueId> updated;
  for (const Update& u : graph.updates) {
    if (!exists(graph, u.leaf) || !exists(graph, u.value))
      throw error("an updated leaf or its new value does not exist");
    if (!updated.insert(u.leaf).second)
      throw error("update %{}: it is updated twice", graph.value(u.leaf).name);
    const OpKind kind = graph.node(graph.value(u.leaf).producer).op->kind;
    if (kind != OpKind::parameter && kind != OpKind::state && kind != OpKind::accumulator)
      throw error("update %{}: only parameters and states can be updated", graph.value(u.leaf).name);
    if (graph.value(u.leaf).type != graph.value(u.value).type)
      throw error("update %{}: it is {} but the new value is {}", graph.value(u.leaf).name,
                  to_text(graph.value(u.leaf).type), to_text(graph.value(u.value).type));
    if (graph.value(u.leaf).format != graph.value(u.value).format)
      throw error("update %{}: it and its new value lie in different formats", graph.value(u.leaf).name);
  }
}

void check_room(const Graph& graph) {
  if (graph.values.size() >= most_values) throw error("the network has more than {} values", most_values);
}

void check_bytes(const Graph& graph) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t all = 0;
  for (const Value& v : graph.values) {
    const std::int64_t bytes = v.global_type().bytes();
    if (bytes > most - all)
      throw error("%{}: with {} the values of the graph are more than {} bytes (2^60) together", v.name,
                  to_text(v.global_type()), most);
    all += bytes;
  }
}

void check_is_network(const Graph& graph) {
  const auto refuse = [](const std::string& name, const std::string& what) {
    throw error(
        "%{} {}: only programs have that; a network holds inputs, parameters, states and operators of the "
        "forward, and its train step is made for it",
        name, what);
  };
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    const Value& v = graph.value(node.results.front());
    if (node.op->kind == OpKind::accumulator || node.op->kind == OpKind::receive || node.op->optimizer)
      refuse(v.name, fmt::format("= {}", node.op->name));
    if (node.phase != Phase::forward) refuse(v.name, fmt::format("is in the {}", name_of(node.phase)));
  }
  for (ValueId v : graph.sends) refuse(graph.value(v).name, "is sent");
  for (const Update& u : graph.updates)
    if (graph.node(graph.value(u.leaf).producer).op->kind != OpKind::state)
      refuse(graph.value(u.leaf).name, "is updated");
}

}  // namespace shardwright
