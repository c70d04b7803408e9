#include "shardwright/exchange/torch/in_place.h"

#include <algorithm>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright::torch {
namespace {

using namespace python;

class InPlace {
 public:
  InPlace(const Pipeline& pipeline, int stage, const Elements& elements)
      : program_(pipeline.stage(stage)), graph_(program_.graph), last_read_(graph_.values.size()) {
    for (const auto& [key, list] : elements.sections)
      for (std::size_t e = 0; e < list.size(); ++e)
        if (list[e].item.stage == stage) note_reads(key.second, static_cast<int>(e), list[e]);
  }

  std::vector<bool> nodes() const {
    std::vector<bool> out(graph_.nodes.size());
    for (const auto& [node, when] : when_) out[at(node.index)] = may_be(graph_.node(node), when);
    return out;
  }

 private:
  struct When {
    Phase phase = Phase::forward;
    int element = -1, node = 0;
    auto operator<=>(const When&) const = default;
  };

  void note_reads(Phase phase, int number, const Element& e) {
    const auto note = [&](ValueId v, const When& when) {
      last_read_[at(v.index)] = std::max(last_read_[at(v.index)], when);
    };
    for (int n = 0; NodeId id : e.nodes) {
      const When when{phase, number, n++};
      for (ValueId v : graph_.node(id).operands) note(v, when);
      when_[id] = when;
    }
    if (e.item.act != Act::compute)
      for (ValueId v : e.reads) note(v, {phase, number, 0});
  }

  /// All of its results lie where the leaves do that they replace, and nobody reads those seen otherwise any more.
  bool may_be(const Node& node, const When& when) const {
    if (node.op->overwrites.size() < node.results.size()) return false;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const ValueId leaf = node.operands.at(at(node.op->overwrites[r]));
      if (!is_leaf(graph_.node(graph_.value(leaf).producer)) || !takes_place(node.results[r], leaf))
        return false;
      if (when < last_view_read(leaf)) return false;
    }
    return !node.results.empty();
  }

  bool takes_place(ValueId value, ValueId leaf) const {
    const int b = program_.buffer_of[at(leaf.index)];
    return b >= 0 && b == program_.buffer_of[at(value.index)] &&
           std::ranges::any_of(graph_.updates,
                               [&](const Update& u) { return u.leaf == leaf && u.value == value; });
  }

  When last_view_read(ValueId leaf) const {
    std::vector<bool> sees(graph_.values.size());
    sees[at(leaf.index)] = true;
    When last;
    for (const Node& node : graph_.nodes) {  // operands are made before those who read them
      const bool is_view = node.op->is_alias || node.op->torch.may_share || node.op->kind == OpKind::step;
      if (!is_view || node.operands.empty() || !sees[at(node.operands[0].index)]) continue;
      for (ValueId v : node.results) {
        sees[at(v.index)] = true;
        last = std::max(last, last_read_[at(v.index)]);
      }
    }
    return last;
  }

  const Program& program_;
  const Graph& graph_;
  std::vector<When> last_read_;  // by value
  std::map<NodeId, When> when_;
};

}  // namespace

std::vector<bool> nodes_in_place(const Pipeline& pipeline, int stage, const python::Elements& elements) {
  return InPlace(pipeline, stage, elements).nodes();
}

}  // namespace shardwright::torch
