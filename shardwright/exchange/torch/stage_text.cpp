#include "shardwright/exchange/torch/stage_text.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/exchange/python/node_line.h"
#include "shardwright/exchange/torch/in_place.h"
#include "shardwright/exchange/torch/lines.h"

namespace shardwright::torch {
namespace {

using namespace python;

class StageWriter {
 public:
  StageWriter(const Pipeline& pipeline, int stage, const Elements& elements)
      : graph_(pipeline.stage(stage).graph),
        mesh_(graph_.meshes[0]),
        stage_(stage),
        names_(python_names(graph_)),
        is_in_place_(nodes_in_place(pipeline, stage, elements)) {}

  StageText write(const Elements& elements) {
    for (const auto& [key, list] : elements.sections)
      for (const Element& e : list)
        if (e.item.stage == stage_ && e.item.act == Act::compute) write(e);
    return std::move(out_);
  }

 private:
  const std::string& name(ValueId v) const { return names_[at(v.index)]; }
  std::vector<std::string> names(const std::vector<ValueId>& values) const {
    std::vector<std::string> out;
    for (ValueId v : values) out.push_back(name(v));
    return out;
  }

  void write(const Element& e) {
    const std::vector<Line> lines = lines_of(graph_, e.nodes, is_in_place_);
    std::map<ValueId, std::size_t> last;  // line that reads it
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (NodeId n : lines[i].nodes)
        for (ValueId v : graph_.node(n).operands) last[v] = i;
    out_.text += fmt::format("\n\ndef {}({}):\n", e.name, join(names(e.reads), ", "));
    std::set<ValueId> own;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::set<std::string> dead;
      for (NodeId n : lines[i].nodes) {
        const Node& node = graph_.node(n);
        own.insert(node.results.begin(), node.results.end());
        for (ValueId v : node.operands)
          if (last[v] == i && own.contains(v) && std::ranges::find(e.makes, v) == e.makes.end())
            dead.insert(name(v));
      }
      std::string text = line(lines[i]);
      if (!dead.empty()) text += fmt::format("; del {}", join(std::vector(dead.begin(), dead.end()), ", "));
      const ValueId first = graph_.node(lines[i].nodes[0]).results[0];
      out_.text += fmt::format("    {}  # {}\n", text, to_text(graph_.value(first).type));
    }
    out_.text += fmt::format("    return {}\n", e.makes.size() == 1 ? "(" + name(e.makes[0]) + ",)"
                                                                    : "(" + join(names(e.makes), ", ") + ")");
  }

  std::string line(const Line& line) {
    if (line.nodes.size() == 1) return assignment(line.nodes[0]);
    const Node& first = graph_.node(line.nodes[0]);
    for (NodeId n : line.nodes) out_.apart[name(first.results[0])].push_back(assignment(n));
    return line.joint ? joint_assignment(*line.joint, first, graph_.node(line.nodes[1]))
                      : together(line.nodes);
  }

  std::string assignment(NodeId n) {
    return fmt::format("{} = {}", join(names(graph_.node(n).results), ", "), expression(n));
  }

  std::string joint_assignment(const JointForm& form, const Node& a, const Node& b) const {
    std::vector<std::string> results = names(a.results);
    std::ranges::copy(names(b.results), std::back_inserter(results));
    return fmt::format("{} = {}", join(results, ", "),
                       joint_line_of(graph_, form, {a, names(a.operands)}, {b, names(b.operands)}));
  }

  /// Updates that differ in their own operands alone.
  std::string together(const std::vector<NodeId>& updates) {
    const Node& first = graph_.node(updates[0]);
    const std::vector<bool> is_own = own_operands(first);
    const auto own_names = [&](const Node& update) {
      std::vector<std::string> out;
      for (std::size_t i = 0; i < is_own.size(); ++i)
        if (is_own[i]) out.push_back(name(update.operands[i]));
      return out;
    };
    std::vector<std::string> parameters, operands;
    for (std::size_t i = 0; i < is_own.size(); ++i) {
      operands.push_back(is_own[i] ? fmt::format("x{}", i) : name(first.operands[i]));
      if (is_own[i]) parameters.push_back(operands.back());
    }
    std::string results, calls;
    for (NodeId n : updates) {
      results += fmt::format("        {},\n", join(names(graph_.node(n).results), ", "));
      calls += fmt::format("        ({}),\n", join(own_names(graph_.node(n)), ", "));
    }
    return fmt::format("(\n{}    ) = together(lambda {}: {}, [\n{}    ])", results, join(parameters, ", "),
                       line_of(graph_, first, operands, Engine::torch, true), calls);
  }

  std::string expression(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->kind == OpKind::step) return step(node);
    for (auto& [f, text] : python_functions(node.op->torch.functions)) out_.functions.emplace(f, text);
    std::string line = line_of(graph_, node, names(node.operands), Engine::torch, is_in_place_[at(n.index)]);
    constexpr std::string_view here = "device=device";  // of what is made of nothing
    const std::size_t at_device = line.find(here);
    if (node.space == Space::host && at_device != line.npos)
      line.replace(at_device, here.size(), "device='cpu'");
    return line;
  }

  std::string step(const Node& node) const {
    switch (*node.op->step) {
      case StepKind::slice: return slice(node);
      case StepKind::mask: return mask(node);
      case StepKind::fetch: return fmt::format("fetched({})", name(node.operands[0]));
      default: return fmt::format("evicted({})", name(node.operands[0]));
    }
  }

  std::string slice(const Node& node) const {
    std::vector<std::string> dims;
    for (std::size_t d = 0; d < graph_.value(node.results[0]).type.shape.size(); ++d) {
      std::vector<std::string> begins, ends;
      bool is_all = true;
      for (int r = 0; r < mesh_.size(); ++r) {
        const Box from = box_of(graph_, node.operands[0], r), to = box_of(graph_, node.results[0], r);
        is_all = is_all && from.extent[d] == to.extent[d];
        begins.push_back(fmt::format("{}", to.offset[d] - from.offset[d]));
        ends.push_back(fmt::format("{}", to.offset[d] - from.offset[d] + to.extent[d]));
      }
      dims.push_back(is_all ? ":"
                            : by_rank(std::move(begins), mesh_) + " : " + by_rank(std::move(ends), mesh_));
    }
    return fmt::format("{}[{}]", name(node.operands[0]), join(dims, ", "));
  }

  /// Kept where all coordinates are 0, zeros elsewhere.
  std::string mask(const Node& node) const {
    const std::string& x = name(node.operands[0]);
    const Step step = step_of(graph_, node);
    const Shape shape = graph_.value(node.results[0]).global_type().shape;
    std::vector<std::string> kept;
    for (int r = 0; r < mesh_.size(); ++r)
      kept.push_back(transfer_of(step, graph_.meshes, shape, r).clears ? "torch.zeros_like(" + x + ")" : x);
    return by_rank(std::move(kept), mesh_);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  int stage_;
  std::vector<std::string> names_;
  std::vector<bool> is_in_place_;  // by node
  StageText out_;
};

}  // namespace

python::StageText stage_text(const Pipeline& pipeline, int stage, const python::Elements& elements) {
  return StageWriter(pipeline, stage, elements).write(elements);
}

}  // namespace shardwright::torch
