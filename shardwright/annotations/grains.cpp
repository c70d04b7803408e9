#include "shardwright/annotations/grains.h"

#include <algorithm>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"

namespace shardwright {
namespace {

/// The loop dim that is cut first of those behind a dim, and how many elements of the dim are minor to it.
struct Major {
  int loop = -1;
  std::int64_t minor = 1;
};

Major major_of(const std::vector<int>& loops, const Rule& rule) {
  Major out;
  for (int l : loops)
    if (out.loop < 0 && rule.loops[at(l)].size > 1)
      out.loop = l;
    else
      out.minor *= rule.loops[at(l)].size;
  return out;
}

/// Runs that are both; all of `size` where no shorter ones are.
std::int64_t joined(std::int64_t a, std::int64_t b, std::int64_t size) {
  if (a > size || b > size || size % a || size % b) return size;
  const std::int64_t both = a / std::gcd(a, b) * b;
  return size % both ? size : both;
}

}  // namespace

Grains::Grains(const Graph& graph, const Calls& calls) : graph_(graph), grains_(graph.values.size()) {
  for (std::size_t v = 0; v < grains_.size(); ++v) grains_[v].assign(graph.values[v].type.shape.size(), 1);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!is_forward_operator(node)) continue;
    const Rule& rule = calls.rule(id);
    tell(rule.results, node.results, rule, runs_of(rule.operands, node.operands, rule));
  }
  for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;) {
    const Node& node = graph.nodes[at(n)];
    if (!is_forward_operator(node)) continue;
    const Rule& rule = calls.rule(NodeId{n});
    tell(rule.operands, node.operands, rule, runs_of(rule.results, node.results, rule));
  }
}

Grains::Runs Grains::runs_of(const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
                             const Rule& rule) const {
  Runs out(rule.loops.size(), 1);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const Major major = major_of(tensors[i].dims[d], rule);
      const std::int64_t grain = grains_[at(values[i].index)][d];
      if (major.loop < 0) continue;
      const LoopDim& dim = rule.loops[at(major.loop)];
      std::int64_t& run = out[at(major.loop)];
      if (dim.kind == LoopKind::whole) run = dim.size;
      if (grain % major.minor == 0) run = joined(run, grain / major.minor, dim.size);
    }
  return out;
}

void Grains::tell(const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
                  const Rule& rule, const Runs& runs) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const Major major = major_of(tensors[i].dims[d], rule);
      if (major.loop < 0) continue;
      std::int64_t& grain = grains_[at(values[i].index)][d];
      grain = joined(grain, runs[at(major.loop)] * major.minor, graph_.value(values[i]).type.shape[d]);
    }
}

std::int64_t Grains::grain_of(const Node& node, const Rule& rule, int loop) const {
  return joined(runs_of(rule.operands, node.operands, rule)[at(loop)],
                runs_of(rule.results, node.results, rule)[at(loop)], rule.loops[at(loop)].size);
}

Axes Grains::fit(const Axes& axes, const Node& node, const Rule& rule, int loop, const Mesh& mesh) const {
  const std::int64_t parts = mesh.count(axes), grain = grain_of(node, rule, loop);
  const std::int64_t runs = rule.loops[at(loop)].size / grain;
  return runs % parts && parts <= runs ? axes.of_grain(grain) : axes;
}

}  // namespace shardwright
