#include "shardwright/exchange/jax/stage_text.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/jax/layouts.h"
#include "shardwright/exchange/python/node_line.h"

namespace shardwright::jax {
namespace {

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether Python text has `name` as a name, and not as a string.
bool names(std::string_view text, std::string_view name) {
  for (std::size_t i = text.find(name); i != text.npos; i = text.find(name, i + 1)) {
    const char before = i == 0 ? ' ' : text[i - 1];
    const char behind = i + name.size() == text.size() ? ' ' : text[i + name.size()];
    if (!is_name_character(before) && before != '"' && !is_name_character(behind)) return true;
  }
  return false;
}

class StageWriter {
 public:
  StageWriter(const Pipeline& pipeline, int stage)
      : graph_(pipeline.stage(stage).graph),
        mesh_(graph_.meshes[0]),
        stage_(stage),
        names_(python::python_names(graph_)) {}

  python::StageText write(const python::Elements& elements) {
    for (const auto& [key, list] : elements.sections)
      for (const python::Element& e : list)
        if (e.item.stage == stage_ && e.item.act == Act::compute) write(e);
    return std::move(out_);
  }

 private:
  const std::string& name(ValueId v) const { return names_[at(v.index)]; }
  template <class Values>
  std::string list(const Values& values) const {
    std::vector<std::string> out;
    for (ValueId v : values) out.push_back(name(v));
    return join(out, ", ");
  }

  void write(const python::Element& e) {
    std::string lines;
    for (std::size_t i = 0; i < e.nodes.size();) {
      std::size_t end = i + 1;
      const bool moves = is_moving(e.nodes[i]);
      while (moves && end < e.nodes.size() && is_moving(e.nodes[end]) && graph_.node(e.nodes[end]).is_fused)
        ++end;
      const std::span<const NodeId> nodes = std::span(e.nodes).subspan(i, end - i);
      lines += moves ? collective(nodes) : line(graph_.node(nodes.front()));
      i = end;
    }
    out_.text += fmt::format("\n\ndef {}({}):\n{}{}    return ({}{})\n", e.name, list(e.reads),
                             coordinates(lines), lines, list(e.makes), e.makes.size() == 1 ? "," : "");
  }

  /// Of the axes that lines name.
  std::string coordinates(std::string_view lines) const {
    std::string out;
    for (const Axis& axis : mesh_.axes)
      if (names(lines, axis.name)) out += fmt::format("    {0} = lax.axis_index(\"{0}\")\n", axis.name);
    return out;
  }

  bool is_moving(NodeId n) const {
    const Node& node = graph_.node(n);
    return node.op->kind == OpKind::step && !is_local(*node.op->step);
  }

  std::string line(const Node& node) {
    std::string expression;
    if (node.op->kind == OpKind::step) {
      expression = *node.op->step == StepKind::slice ? slice(node) : mask(node);
    } else {
      for (auto& [f, text] : python_functions(jax_functions(*node.op))) out_.functions.emplace(f, text);
      std::vector<std::string> operands;
      for (ValueId v : node.operands) operands.push_back(name(v));
      expression = line_of(graph_, node, std::move(operands), Engine::jax);
    }
    return fmt::format("    {} = {}  # {}\n", list(node.results), expression,
                       to_text(graph_.value(node.results[0]).type));
  }

  /// What goes between ranks, of one tensor or several at once.
  std::string collective(std::span<const NodeId> nodes) const {
    std::vector<Step> steps;
    std::vector<ValueId> from, to;
    for (NodeId n : nodes) {
      steps.push_back(step_of(graph_, graph_.node(n)));
      from.push_back(graph_.node(n).operands[0]);
      to.push_back(graph_.node(n).results[0]);
    }
    return fmt::format("    {} = {}  # {}\n", list(to),
                       steps.size() == 1 ? moved(graph_.node(nodes.front()), steps[0])
                                         : moved_together(nodes, steps, list(from)),
                       to_text(graph_.value(to[0]).type));
  }

  std::string moved(const Node& node, const Step& step) const {
    const std::string& x = name(node.operands[0]);
    const std::string axes = axes_text(step.axes, mesh_);
    switch (step.kind) {
      case StepKind::all_reduce:
        return fmt::format("lax.{}({}, {})", step.reduction == Reduction::max ? "pmax" : "psum", x, axes);
      case StepKind::all_gather:
        return fmt::format("lax.all_gather({}, {}, axis={}, tiled=True)", x, axes, step.dim_from);
      case StepKind::reduce_scatter:
        return fmt::format("lax.psum_scatter({}, {}, scatter_dimension={}, tiled=True)", x, axes,
                           step.dim_from);
      case StepKind::all_to_all:
        return fmt::format("lax.all_to_all({}, {}, {}, {}, tiled=True)", x, axes, step.dim_to, step.dim_from);
      case StepKind::permute: return permuted(node, step);
      default: throw not_written(node, step);
    }
  }

  std::string moved_together(std::span<const NodeId> nodes, const std::vector<Step>& steps,
                             const std::string& from) const {
    const Step& first = steps[0];
    const std::string axes = axes_text(first.axes, mesh_);
    std::vector<std::string> dims, to_dims;
    for (const Step& step : steps) {
      dims.push_back(fmt::format("{}", step.dim_from));
      to_dims.push_back(fmt::format("{}", step.dim_to));
    }
    const std::string of_dims = "[" + join(dims, ", ") + "]";
    switch (first.kind) {
      case StepKind::all_reduce:
        return fmt::format("reduce_together(lax.{}, {}, {})",
                           first.reduction == Reduction::max ? "pmax" : "psum", axes, from);
      case StepKind::all_gather: return fmt::format("gather_together({}, {}, {})", axes, of_dims, from);
      case StepKind::reduce_scatter:
        return fmt::format("reduce_scatter_together({}, {}, {})", axes, of_dims, from);
      case StepKind::all_to_all:
        return fmt::format("all_to_all_together({}, {}, [{}], {})", axes, of_dims, join(to_dims, ", "), from);
      default: throw not_written(graph_.node(nodes.front()), first);
    }
  }

  Error not_written(const Node& node, const Step& step) const {
    return error(
        "%{} is made by {} from {} to {}, which is no collective of JAX; choose layouts between which one is",
        graph_.value(node.results[0]).name, name_of(step.kind), to_text(step.from, mesh_),
        to_text(step.to, mesh_));
  }

  /// Where each rank has all of another's part.
  std::string permuted(const Node& node, const Step& step) const {
    const Shape shape = graph_.value(node.results[0]).global_type().shape;
    std::vector<std::string> pairs;
    for (int r = 0; r < mesh_.size(); ++r) {
      const Transfer t = transfer_of(step, graph_.meshes, shape, r);
      if (t.pieces.size() != 1 || t.pieces[0].extent != t.from_shape || t.from_shape != t.to_shape)
        throw not_written(node, step);
      pairs.push_back(fmt::format("({}, {})", t.pieces[0].source, r));
    }
    return fmt::format("lax.ppermute({}, {}, [{}])", name(node.operands[0]),
                       axes_text(mesh_.all_axes(), mesh_), join(pairs, ", "));
  }

  std::string slice(const Node& node) const {
    std::vector<std::vector<std::int64_t>> begins, sizes;
    for (int r = 0; r < mesh_.size(); ++r) {
      const Box from = box_of(graph_, node.operands[0], r), to = box_of(graph_, node.results[0], r);
      auto& begin = begins.emplace_back();
      for (std::size_t d = 0; d < to.offset.size(); ++d) begin.push_back(to.offset[d] - from.offset[d]);
      sizes.push_back(to.extent);
    }
    return fmt::format("own_part({}, {}, {})", name(node.operands[0]), by_rank(begins, mesh_, Engine::jax),
                       by_rank(sizes, mesh_, Engine::jax));
  }

  /// Kept where all coordinates are 0, zeros elsewhere.
  std::string mask(const Node& node) const {
    const std::string& x = name(node.operands[0]);
    const Step step = step_of(graph_, node);
    std::vector<std::string> own;
    for (int a : step.axes) own.push_back(fmt::format("({} == 0)", mesh_.axes[at(a)].name));
    return fmt::format("jnp.where({}, {}, jnp.zeros_like({}))", join(own, " & "), x, x);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  int stage_;
  std::vector<std::string> names_;
  python::StageText out_;
};

}  // namespace

python::StageText stage_text(const Pipeline& pipeline, int stage, const python::Elements& elements) {
  return StageWriter(pipeline, stage).write(elements);
}

}  // namespace shardwright::jax
