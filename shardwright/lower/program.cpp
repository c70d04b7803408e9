#include "shardwright/lower/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "shardwright/graph/calls.h"

namespace shardwright {
ValueId Program::of_part(ValueId v, int part) const {
  const auto it =
      std::ranges::find_if(parts, [&](const PartValue& p) { return p.of == v && p.part == part; });
  return it == parts.end() ? v : it->value;
}

bool Program::is_of_further_part(ValueId v) const {
  return std::ranges::find(parts, v, &PartValue::value) != parts.end();
}

namespace {

constexpr std::array<std::string_view, 7> buffer_kinds{
    "parameter", "state", "accumulator", "gradient", "activation", "communication", "workspace"};

}  // namespace

std::string_view name_of(BufferKind kind) { return buffer_kinds[static_cast<std::size_t>(kind)]; }

BufferKind buffer_kind_called(std::string_view name) {
  const auto found = std::ranges::find(buffer_kinds, name);
  if (found == buffer_kinds.end())
    throw error("a buffer for '{}' does not exist; there are {}", name, fmt::join(buffer_kinds, ", "));
  return static_cast<BufferKind>(found - buffer_kinds.begin());
}

Step step_of(const Graph& graph, const Node& node) {
  const Value& from = graph.value(node.operands.front());
  const Value& to = graph.value(node.results.front());
  require(node.op->step && from.layout && to.layout, "{} is no step", to.name);
  Step step{.kind = *node.op->step, .reduction = node.op->reduction, .from = *from.layout, .to = *to.layout};
  const auto axes_of = [&](const std::string& text) {
    Scanner in(text);
    return parse_axes(in, graph.meshes[static_cast<std::size_t>(std::max(step.from.mesh, step.to.mesh))]);
  };
  const std::string over = node.attributes.text("over", "");
  if (!over.empty()) step.axes = axes_of(over);
  step.dim_from = static_cast<int>(node.attributes.integer("dim", -1));
  step.dim_to = static_cast<int>(node.attributes.integer("to", -1));
  if (node.operands.size() > 1)
    step.routing = Routing{node.attributes.integer("experts", 0), axes_of(node.attributes.text("among", "")),
                           graph.value(node.operands[1]).type.shape.back()};
  return step;
}

std::int64_t bytes_held(const Graph& graph, const Node& node) {
  return std::max(graph.value(node.operands.front()).type.bytes(),
                  graph.value(node.results.front()).type.bytes());
}

const Redistribution& redistribution_of(const Graph& graph, const Node& node, Redistributor& redistributor) {
  const Value& from = graph.value(node.operands.front());
  const Value& to = graph.value(node.results.front());
  if (node.operands.size() > 1) return redistributor.find_routed(step_of(graph, node), to.global_type());
  return redistributor.find(*from.layout, *to.layout, to.global_type());
}

Layout layout_of(const Value& value) { return value.layout.value_or(replicated(value.type.shape.size())); }

Box box_of(const Graph& graph, ValueId v, int rank) {
  const Value& value = graph.value(v);
  const Layout layout = layout_of(value);
  return box(layout, graph.meshes[static_cast<std::size_t>(layout.mesh)], value.global_type().shape, rank);
}

LocalCall local_call(const Graph& graph, const Node& node, int rank) {
  LocalCall out;
  std::vector<Type> operands, results;
  const auto add = [&](ValueId v, auto& views, auto& formats, auto& types) {
    const Value& value = graph.value(v);
    views.push_back({value.type.dtype, box_of(graph, v, rank).extent, nullptr});
    formats.push_back(value.format);
    types.push_back({value.type.dtype, views.back().shape});
  };
  for (ValueId v : node.operands) add(v, out.operands, out.operand_formats, operands);
  for (ValueId v : node.results) add(v, out.results, out.result_formats, results);
  out.attributes =
      node.op->localize ? node.op->localize({operands, results, node.attributes}) : node.attributes;
  out.rule = *shared_rule_of(graph, node);
  const Strategy strategy = node.strategy.value_or(whole(out.rule));
  out.loops = loop_box(out.rule, strategy, graph.meshes[static_cast<std::size_t>(strategy.mesh)], rank);
  return out;
}

void set_step(Node& node, const Step& step, std::span<const Mesh> meshes) {
  node.op = &op_of(step.kind, step.reduction);
  node.attributes = {};
  const Mesh& mesh = meshes[static_cast<std::size_t>(std::max(step.from.mesh, step.to.mesh))];
  if (!step.axes.empty()) node.attributes.set("over", to_text(step.axes, mesh));
  if (step.dim_from >= 0) node.attributes.set("dim", std::int64_t{step.dim_from});
  if (step.dim_to >= 0) node.attributes.set("to", std::int64_t{step.dim_to});
}

}  // namespace shardwright
