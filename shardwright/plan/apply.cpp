// A plan in names becomes strategies and layouts of a graph.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "shardwright/base/index.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/groups.h"
#include "shardwright/plan/plan.h"

namespace shardwright {
namespace {

/// A layout in which a value is kept.
/// Throws: Error if it is none, or does not fit `shape`.
Layout layout_of(const std::string& text, const std::vector<Mesh>& meshes, const Shape& shape) {
  const std::size_t mark = text.find('@');
  const auto mesh = mark == std::string::npos ? 0 : to_integer(text.substr(mark + 1)).value_or(-1);
  if (mesh < 0 || mesh >= static_cast<std::int64_t>(meshes.size()))
    throw error("layout '{}': there is no such mesh", text);
  Scanner in(std::string_view(text).substr(0, mark), "layout");
  Layout out = parse_layout(in, meshes[at(static_cast<int>(mesh))]);
  if (!in.at_end()) in.fail("the end of the layout");
  if (out.is_partial()) throw error("layout '{}' is partial; a kept value is not", text);
  if (!out.used().empty()) out.mesh = static_cast<int>(mesh);
  check(out, meshes[at(out.mesh)], shape);
  for (std::size_t d = 0; d < shape.size(); ++d)
    out.dims[d] = settled(out.dims[d], meshes[at(out.mesh)], shape[d]);
  return out;
}

/// A stage's plan in names as choices on its part of the graph.
class Reading {
 public:
  Reading(const StagePlan& plan, const Graph& graph)
      : plan_(plan),
        graph_(graph),
        calls_(graph),
        out_{.meshes = plan.meshes, .strategies = {}, .layouts = {}} {
    out_.strategies.resize(graph.nodes.size());
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      values_.emplace(graph.values[v].name, static_cast<int>(v));
  }

  Choices run() {
    for (const PlannedOperator& op : plan_.operators) try {
        read_operator(op);
      } catch (const Error& e) {
        throw with_context(e, fmt::format("plan: {}", op.name));
      }
    for (const auto& [name, text] : plan_.layouts) read_layout(name, text);
    return std::move(out_);
  }

 private:
  void read_operator(const PlannedOperator& planned) {
    const ValueId v = called(planned.name);
    const NodeId id = graph_.value(v).producer;
    const Node& node = graph_.node(id);
    if (node.op->kind != OpKind::compute) throw error("is not an operator");
    if (!planned.kind.empty() && planned.kind != node.op->name)
      throw error("is {} here but {} in the plan", node.op->name, planned.kind);
    if (planned.mesh < 0 || planned.mesh >= static_cast<int>(plan_.meshes.size()))
      throw error("there is no mesh {}", planned.mesh);
    // Repeated layers say the same of the same calls.
    const Said said{calls_.of(id), planned.mesh, planned.strategy, planned.cuts, planned.in};
    auto known = known_.find(said);
    if (known == known_.end()) known = known_.emplace(said, strategy_of(planned, calls_.rule(id))).first;
    out_.strategies[at(id.index)] = known->second;
    if (!planned.out.empty())
      out_.layouts[v] = layout_of(planned.out, plan_.meshes, graph_.value(v).type.shape);
  }

  Strategy strategy_of(const PlannedOperator& planned, const Rule& rule) const {
    const Mesh& mesh = plan_.meshes[at(planned.mesh)];
    std::string text;
    for (const auto& [loop, axes] : planned.strategy) {
      for (const std::string& axis : axes) mesh.axis(axis);  // there is one of that name
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", loop, axes.empty() ? "-" : join(axes, "."));
      if (planned.cuts.contains(loop)) text += to_text(planned.cuts.at(loop));
    }
    text = "{" + text + "}";
    Scanner in(text, "strategy");
    Strategy s = parse_strategy(in, rule, mesh);
    s.mesh = used_axes(s).empty() ? 0 : planned.mesh;
    if (const auto why = violation_as_asked(rule, s, mesh)) throw Error(*why);
    check_told(planned, rule, s, mesh);
    return s;
  }

  /// What is told of the strategy is true: somebody has edited one of the two.
  static void check_told(const PlannedOperator& planned, const Rule& rule, const Strategy& s,
                         const Mesh& mesh) {
    if (planned.in.empty()) return;
    std::vector<std::vector<std::int64_t>> in;
    for (const RuleTensor& tensor : rule.operands) in.push_back(integers_of(tensor, s, mesh));
    if (in != planned.in)
      throw error(
          "\"in\" is {} but the strategy {} cuts the inputs into {}; leave \"in\" out or let it follow",
          planned.in, to_text(s, rule, mesh), in);
  }

  void read_layout(const std::string& name, const std::string& text) try {
    const ValueId v = called(name);
    const OpKind kind = graph_.node(graph_.value(v).producer).op->kind;
    if (kind == OpKind::compute) throw error("it is not a leaf");
    out_.layouts[v] = layout_of(text, plan_.meshes, graph_.value(v).type.shape);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("plan: layout of {}", name));
  }

  ValueId called(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? graph_.find(name) : ValueId{it->second};
  }

  const StagePlan& plan_;
  const Graph& graph_;
  const Calls calls_;
  Choices out_;
  /// Call, mesh, strategy, and the parts of inputs that are told.
  using Said = std::tuple<int, int, decltype(PlannedOperator::strategy), decltype(PlannedOperator::cuts),
                          decltype(PlannedOperator::in)>;
  std::map<Said, Strategy> known_;
  std::unordered_map<std::string_view, int> values_;  // by name
};

/// Weights of level 3 say themselves how they are shared.
void check_groups(const Graph& graph, const Choices& choices, const OptimizerParallel& options) {
  if (options.level != 1 && options.level != 2) return;
  for (const auto& [v, layout] : choices.layouts) {
    const Value& value = graph.value(v);
    if (graph.node(value.producer).op->kind == OpKind::parameter && value.type.bytes() >= options.threshold)
      check_group(layout, choices.meshes[at(layout.mesh)], options.group, value.name);
  }
}

}  // namespace

void shard_states(PlannedGraph& planned, const std::vector<Mesh>& meshes,
                  const OptimizerParallel& optimizer_parallel) {
  Graph& graph = planned.graph;
  for (const Node& node : graph.nodes) {
    if (!node.op->optimizer) continue;
    const ValueId weight = node.operands.front();
    Layout layout = graph.value(weight).layout.value_or(replicated(graph.value(weight).type.shape.size()));
    layout = state_layout(layout, meshes, graph.value(weight).type, optimizer_parallel);
    for (ValueId state : state_operands(node)) graph.value(state).layout = layout;
    planned.update_layouts[weight] = layout;
  }
  const auto lay_out_gradient = [&](Value& gradient) {
    for (ValueId of : gradient.gradient_of) {  // of a weight of another stage: none
      const Value& weight = graph.value(of);
      if (graph.node(weight.producer).op->kind != OpKind::parameter) continue;
      const Layout read = weight.layout.value_or(replicated(weight.type.shape.size()));
      gradient.layout = gradient_layout(read, meshes, weight.type, optimizer_parallel);
      return;
    }
  };
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::accumulator) lay_out_gradient(graph.value(node.results.front()));
    for (ValueId v : node.operands) {
      const Node& maker = graph.node(graph.value(v).producer);
      if (node.phase == Phase::update && maker.phase == Phase::backward && maker.op->kind == OpKind::compute)
        lay_out_gradient(graph.value(v));
    }
  }
}

namespace {

bool shards_a_state(const PlannedGraph& planned) {
  const Graph& graph = planned.graph;
  const std::vector<Reader> readers = first_forward_readers(graph);
  for (const auto& [weight, layout] : planned.update_layouts) {
    const Reader& reader = readers[at(weight.index)];
    if (!reader.node.is_valid() || !graph.node(reader.node).strategy) continue;
    const Node& node = graph.node(reader.node);
    if (stored(layouts_of(rule_of(graph, node), *node.strategy).operands[reader.operand]) != layout)
      return true;
  }
  return false;
}

}  // namespace

bool shards_states(const Plan& plan, const Graph& graph) {
  return plan.settings.optimizer_parallel.level > 0 &&
         std::ranges::any_of(apply(plan, graph).stages, shards_a_state);
}

PlannedGraph written(Graph graph, Choices choices, const Settings& settings,
                     const MicroBatches& micro_batches, bool has_layers) {
  PlannedGraph out{.graph = std::move(graph),
                   .update_layouts = {},
                   .comm_fusion = settings.comm_fusion,
                   .recompute = settings.recompute,
                   .has_layers = has_layers,
                   .offload = settings.offload,
                   .micro_batches = micro_batches,
                   .overlap_tensor = settings.overlap_tensor};
  out.graph.level = Level::planned;
  out.graph.meshes = std::move(choices.meshes);
  for (std::size_t n = 0; n < choices.strategies.size(); ++n)
    if (choices.strategies[n]) out.graph.nodes[n].strategy = std::move(choices.strategies[n]);
  for (auto& [v, layout] : choices.layouts) out.graph.value(v).layout = std::move(layout);
  shard_states(out, out.graph.meshes, settings.optimizer_parallel);
  return out;
}

PlannedStages apply(const Plan& plan, const Graph& graph) {
  if (const std::size_t count = plan.settings.offload.stages(); count > 0 && count != plan.stages.size())
    throw error("offload {}: has shares of {} stages, but the plan has {}", to_text(plan.settings.offload),
                count, plan.stages.size());
  StagedGraph parts = staged(graph, plan);
  const bool is_of_layers = plan.settings.recompute.is_on() && has_layers(graph);
  PlannedStages out{
      .stages = {}, .crossings = std::move(parts.crossings), .outputs = std::move(parts.outputs)};
  for (std::size_t s = 0; s < plan.stages.size(); ++s) try {
      Graph& part = parts.stages[s];
      Choices choices = Reading(plan.stages[s], part).run();
      check_groups(part, choices, plan.settings.optimizer_parallel);
      out.stages.push_back(written(std::move(part), std::move(choices), plan.settings,
                                   micro_batches_of(plan.settings.pipelining, static_cast<int>(s)),
                                   is_of_layers));
      out.stages.back().offload = plan.settings.offload.of_stage(s);
    } catch (const Error& e) {
      if (plan.stages.size() == 1) throw;
      throw with_context(e, fmt::format("stage {}", s));
    }
  return out;
}

}  // namespace shardwright
