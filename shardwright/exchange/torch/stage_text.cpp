#include "shardwright/exchange/torch/stage_text.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/exchange/python/node_line.h"
#include "shardwright/exchange/torch/in_place.h"

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
    std::map<ValueId, NodeId> last;
    for (NodeId n : e.nodes)
      for (ValueId v : graph_.node(n).operands) last[v] = n;
    out_.text += fmt::format("\n\ndef {}({}):\n", e.name, join(names(e.reads), ", "));
    std::set<ValueId> own;
    std::set<std::string> dead;
    for (std::size_t i = 0; i < e.nodes.size(); ++i) {
      const auto note = [&](NodeId n) {
        const Node& node = graph_.node(n);
        own.insert(node.results.begin(), node.results.end());
        for (ValueId v : node.operands)
          if (last[v] == n && own.contains(v) && std::ranges::find(e.makes, v) == e.makes.end())
            dead.insert(name(v));
      };
      const NodeId n = e.nodes[i];
      note(n);
      const JointForm* const form = i + 1 < e.nodes.size() ? joint(n, e.nodes[i + 1]) : nullptr;
      if (form) note(e.nodes[++i]);
      std::string line = form ? joint_assignment(*form, n, e.nodes[i]) : assignment(n);
      if (!dead.empty()) line += fmt::format("; del {}", join(std::vector(dead.begin(), dead.end()), ", "));
      dead.clear();
      out_.text += fmt::format("    {}  # {}\n", line, to_text(graph_.value(graph_.node(n).results[0]).type));
    }
    out_.text += fmt::format("    return {}\n", e.makes.size() == 1 ? "(" + name(e.makes[0]) + ",)"
                                                                    : "(" + join(names(e.makes), ", ") + ")");
  }

  std::string assignment(NodeId n) {
    return fmt::format("{} = {}", join(names(graph_.node(n).results), ", "), expression(n));
  }

  /// How both are computed at once; null: they are not.
  const JointForm* joint(NodeId first, NodeId second) const {
    const Node &a = graph_.node(first), &b = graph_.node(second);
    for (const JointForm& form : a.op->torch.joint) {
      const auto is_shared = [&](const std::pair<int, int>& operands) {
        return a.operands[at(operands.first)] == b.operands[at(operands.second)];
      };
      const auto is_read = [&](ValueId v) { return std::ranges::find(b.operands, v) != b.operands.end(); };
      if (form.other == b.op->name && std::ranges::all_of(form.shared, is_shared) &&
          std::ranges::none_of(a.results, is_read))
        return &form;
    }
    return nullptr;
  }

  std::string joint_assignment(const JointForm& form, NodeId first, NodeId second) {
    const Node &a = graph_.node(first), &b = graph_.node(second);
    out_.apart[name(a.results[0])] = {assignment(first), assignment(second)};
    std::vector<std::string> results = names(a.results);
    std::ranges::copy(names(b.results), std::back_inserter(results));
    return fmt::format("{} = {}", join(results, ", "),
                       joint_line_of(graph_, form, {a, names(a.operands)}, {b, names(b.operands)}));
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
