#include "shardwright/annotations/grains.h"

#include <algorithm>
#include <numeric>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/layout/rule_dims.h"

namespace shardwright {
namespace {

/// Runs that are both; all of `size` where no shorter ones are.
std::int64_t joined(std::int64_t a, std::int64_t b, std::int64_t size) {
  if (a > size || b > size || size % a || size % b) return size;
  const std::int64_t both = a / std::gcd(a, b) * b;
  return size % both ? size : both;
}

/// Of what is minor to the major loop behind a dim, how many elements stay together: from the first loop on that is not cut at
/// all, or everything.
std::int64_t minor_together(const Rule& rule, const std::vector<int>& loops,
                            const std::vector<std::int64_t>& runs, bool has_groups) {
  const MajorLoop major = major_loop(rule, loops);
  if (has_groups || runs[at(major.loop)] > 1) return major.minor;
  std::int64_t out = 1;
  for (int l : loops) {
    const LoopDim& dim = rule.loops[at(l)];
    if (l != major.loop && (out > 1 || runs[at(l)] == dim.size)) out *= dim.size;
  }
  return out;
}

}  // namespace

Grains::Grains(const Graph& graph, const Calls& calls, bool has_equal_parts)
    : graph_(graph), has_equal_parts_(has_equal_parts) {
  if (has_equal_parts_) return;
  for (Table* table : {&groups_, &alone_}) fill(*table, calls);
}

/// Forth and back.
void Grains::fill(Table& table, const Calls& calls) const {
  for (const Value& v : graph_.values) table.grains.emplace_back(v.type.shape.size(), 1);
  for (NodeId id : graph_.node_ids()) {
    const Node& node = graph_.node(id);
    if (!is_forward_operator(node)) continue;
    const Rule& rule = calls.rule(id);
    tell(table, rule.results, node.results, rule, runs_of(table, rule.operands, node.operands, rule));
  }
  for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;) {
    const Node& node = graph_.nodes[at(n)];
    if (!is_forward_operator(node)) continue;
    const Rule& rule = calls.rule(NodeId{n});
    tell(table, rule.operands, node.operands, rule, runs_of(table, rule.results, node.results, rule));
  }
}

Grains::Runs Grains::runs_of(const Table& table, const std::vector<RuleTensor>& tensors,
                             const std::vector<ValueId>& values, const Rule& rule) const {
  Runs out;
  for (const LoopDim& dim : rule.loops) out.push_back(dim.kind == LoopKind::whole ? dim.size : 1);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const MajorLoop major = major_loop(rule, tensors[i].dims[d]);
      const std::int64_t grain = table.grains[at(values[i].index)][d];
      if (major.loop < 0 || grain % major.minor) continue;
      std::int64_t& run = out[at(major.loop)];
      run = joined(run, grain / major.minor, rule.loops[at(major.loop)].size);
    }
  return out;
}

void Grains::tell(Table& table, const std::vector<RuleTensor>& tensors, const std::vector<ValueId>& values,
                  const Rule& rule, const Runs& runs) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t d = 0; d < tensors[i].dims.size(); ++d) {
      const std::vector<int>& loops = tensors[i].dims[d];
      const int major = major_loop(rule, loops).loop;
      if (major < 0) continue;
      std::int64_t& grain = table.grains[at(values[i].index)][d];
      grain = joined(grain, runs[at(major)] * minor_together(rule, loops, runs, table.has_groups),
                     graph_.value(values[i]).type.shape[d]);
    }
}

std::int64_t Grains::grain_of(const Table& table, const Node& node, const Rule& rule, int loop) const {
  return joined(runs_of(table, rule.operands, node.operands, rule)[at(loop)],
                runs_of(table, rule.results, node.results, rule)[at(loop)], rule.loops[at(loop)].size);
}

Axes Grains::fit(const Axes& axes, const Node& node, const Rule& rule, int loop, const Mesh& mesh) const {
  if (axes.is_by_shares()) return axes.of_grain(grain_of(groups_, node, rule, loop));
  if (has_equal_parts_) return axes;
  const std::int64_t size = rule.loops[at(loop)].size, parts = mesh.count(axes);
  std::int64_t grain = grain_of(groups_, node, rule, loop);
  // More devices than groups: as many share one.
  if (parts > size / grain && parts % (size / grain) == 0) grain = grain_of(alone_, node, rule, loop);
  return size / grain % parts && parts <= size / grain ? axes.of_grain(grain) : axes;
}

}  // namespace shardwright
