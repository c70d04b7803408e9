// A plan in names becomes strategies and layouts of a graph.

#include <fmt/ranges.h>

#include <unordered_map>

#include "shardwright/graph/op.h"
#include "shardwright/plan/groups.h"
#include "shardwright/plan/plan.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A layout in which a value is kept: what is read where it lies is cut evenly.
/// Throws: Error if it is none, or does not fit `shape`.
Layout layout_of(const std::string& text, const std::vector<Mesh>& meshes, const Shape& shape,
                 bool may_be_uneven = false) {
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
  if (!may_be_uneven && !is_even(out, meshes[at(out.mesh)], shape))
    throw error("layout '{}' cannot cut {} evenly", text, to_text(shape));
  return out;
}

class Application {
 public:
  Application(const Plan& plan, Graph graph)
      : plan_(plan),
        out_{.graph = std::move(graph),
             .update_layouts = {},
             .comm_fusion = plan.settings.comm_fusion,
             .recompute = plan.settings.recompute} {}

  PlannedGraph run() {
    const std::string fingerprint = fingerprint_of(out_.graph);
    if (fingerprint != plan_.fingerprint)
      throw error("the plan is for '{}' ({}), not for this network ({}): other sizes, types, batch or layers",
                  plan_.model, plan_.fingerprint, fingerprint);
    out_.graph.meshes = plan_.meshes;
    out_.graph.level = Level::planned;
    for (std::size_t v = 0; v < out_.graph.values.size(); ++v)
      values_.emplace(out_.graph.values[v].name, static_cast<int>(v));
    for (const PlannedOperator& op : plan_.operators) {
      try {
        apply_operator(op);
      } catch (const Error& e) {
        throw with_context(e, fmt::format("plan: {}", op.name));
      }
    }
    for (const auto& [name, text] : plan_.layouts) apply_layout(name, text);
    check_groups();
    shard_states(out_, plan_.meshes, plan_.settings.optimizer_parallel);
    return std::move(out_);
  }

 private:
  void apply_operator(const PlannedOperator& planned) {
    Graph& graph = out_.graph;
    const ValueId v = called(planned.name);
    Node& node = graph.node(graph.value(v).producer);
    if (node.op->kind != OpKind::compute) throw error("is not an operator");
    if (!planned.kind.empty() && planned.kind != node.op->name)
      throw error("is {} here but {} in the plan", node.op->name, planned.kind);
    if (planned.mesh < 0 || planned.mesh >= static_cast<int>(plan_.meshes.size()))
      throw error("there is no mesh {}", planned.mesh);
    const Mesh& mesh = plan_.meshes[at(planned.mesh)];
    const Rule rule = rule_of(graph, node);
    std::string text;
    for (const auto& [loop, axes] : planned.strategy) {
      for (const std::string& axis : axes) mesh.axis(axis);  // there is one of that name
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", loop, axes.empty() ? "-" : join(axes, "."));
    }
    text = "{" + text + "}";
    Scanner in(text, "strategy");
    Strategy s = parse_strategy(in, rule, mesh);
    s.mesh = used_axes(s).empty() ? 0 : planned.mesh;
    if (const auto why = violation_as_asked(rule, s, mesh)) throw Error(*why);
    check_told(planned, rule, s, mesh);
    node.strategy = s;
    if (!planned.out.empty())
      graph.value(v).layout = layout_of(planned.out, plan_.meshes, graph.value(v).type.shape);
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

  void apply_layout(const std::string& name, const std::string& text) try {
    Graph& graph = out_.graph;
    Value& v = graph.value(called(name));
    if (graph.node(v.producer).op->kind == OpKind::compute) throw error("it is not a leaf");
    const bool is_parameter = graph.node(v.producer).op->kind == OpKind::parameter;
    v.layout = layout_of(text, plan_.meshes, v.type.shape, is_parameter);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("plan: layout of {}", name));
  }

  /// Weights of level 3 say themselves how they are shared.
  void check_groups() const {
    const OptimizerParallel& options = plan_.settings.optimizer_parallel;
    if (options.level != 1 && options.level != 2) return;
    for (const Node& node : out_.graph.nodes) {
      const Value& v = out_.graph.value(node.results.front());
      if (node.op->kind == OpKind::parameter && v.layout && v.type.bytes() >= options.threshold)
        check_group(*v.layout, plan_.meshes[at(v.layout->mesh)], options.group, v.name);
    }
  }

  ValueId called(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? out_.graph.find(name) : ValueId{it->second};
  }

  const Plan& plan_;
  PlannedGraph out_;
  std::unordered_map<std::string_view, int> values_;  // by name
};

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
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::accumulator) continue;
    Value& sum = graph.value(node.results.front());
    if (sum.gradient_of.empty()) continue;  // of a weight of another stage
    const Value& weight = graph.value(sum.gradient_of.front());
    const Layout whole = replicated(weight.type.shape.size());
    if (graph.node(weight.producer).op->kind == OpKind::parameter)
      sum.layout = accumulator_layout(weight.layout.value_or(whole), meshes, weight.type, optimizer_parallel);
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
  if (plan.settings.optimizer_parallel.level == 0) return false;
  StagedGraph parts = staged(graph, plan);
  for (std::size_t s = 0; s < parts.stages.size(); ++s)
    if (shards_a_state(apply(plan.stages.empty() ? plan : plan.stages[s], std::move(parts.stages[s]))))
      return true;
  return false;
}

PlannedGraph apply(const Plan& plan, Graph graph) { return Application(plan, std::move(graph)).run(); }

}  // namespace shardwright
