#include "shardwright/plan/batch.h"

#include <algorithm>
#include <optional>

#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr std::string_view batch_attribute = "batch";

/// Where the batch lies in a dim that is made of several: samples are `inner` elements apart.
struct Place {
  std::int64_t inner = 1;
  std::int64_t samples = 1;
};
/// Of each dim or loop; nothing of one without samples.
using Places = std::vector<std::optional<Place>>;

/// Which loops behind the dims of an operand the batch is in; false where it is in several.
bool add_loops(Places& loops, const Rule& rule, const RuleTensor& operand, const Places& dims) {
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (!dims[d] || operand.dims[d].empty()) continue;
    const auto [inner, samples] = *dims[d];
    bool is_found = false;
    std::int64_t minor = 1;  // elements of the dim per step of the loop
    for (auto l = operand.dims[d].rbegin(); l != operand.dims[d].rend(); ++l) {
      const std::int64_t size = rule.loops[at(*l)].size;
      const bool is_here = minor <= inner && inner * samples <= minor * size && inner % minor == 0;
      if (is_here) loops[at(*l)] = Place{inner / minor, samples};
      is_found = is_found || is_here;
      minor *= size;
    }
    if (!is_found) return false;
  }
  return true;
}

Places places_of(const Rule& rule, const RuleTensor& result, const Places& loops) {
  Places out(result.dims.size());
  for (std::size_t d = 0; d < result.dims.size(); ++d) {
    std::int64_t minor = 1;
    for (auto l = result.dims[d].rbegin(); l != result.dims[d].rend(); ++l) {
      if (const auto& place = loops[at(*l)]) out[d] = Place{place->inner * minor, place->samples};
      minor *= rule.loops[at(*l)].size;
    }
  }
  return out;
}

}  // namespace

std::vector<std::size_t> batch_dims_of_leaf(const Graph& graph, const Node& leaf) {
  const bool comes_with_each = leaf.op->kind == OpKind::receive && leaf.phase == Phase::forward &&
                               leaf.attributes.integer("once", 0) == 0;
  if (leaf.op->kind != OpKind::input && !comes_with_each) return {};
  if (graph.value(leaf.results[0]).type.shape.empty()) return {};
  if (!leaf.attributes.find(batch_attribute)) return {0};
  const auto dims = leaf.attributes.integers(batch_attribute);
  return {dims.begin(), dims.end()};
}

Type of_whole_step(Type type, int micro_batches) {
  if (!type.shape.empty()) type.shape[0] *= micro_batches;
  return type;
}

Attributes attributes_of_batch(const std::vector<bool>& is_batch) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < is_batch.size(); ++d)
    if (is_batch[d]) dims.push_back(static_cast<std::int64_t>(d));
  if (is_batch.empty() || dims == std::vector<std::int64_t>{0}) return {};
  return {{std::string(batch_attribute), dims}};
}

BatchDims batch_dims(const Graph& graph) {
  BatchDims is_batch(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) is_batch[at(v.index)].assign(graph.value(v).type.shape.size(), false);
    for (std::size_t d : batch_dims_of_leaf(graph, node)) is_batch[at(node.results[0].index)][d] = true;
    if (node.op->kind != OpKind::compute) continue;
    const Rule rule = rule_of(graph, node);
    std::vector<bool> loops(rule.loops.size(), false);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
        if (is_batch[at(node.operands[i].index)][d] && !rule.operands[i].dims[d].empty())
          loops[at(rule.operands[i].dims[d][0])] = true;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      for (std::size_t d = 0; d < rule.results[i].dims.size(); ++d)
        if (!rule.results[i].dims[d].empty() && loops[at(rule.results[i].dims[d][0])])
          is_batch[at(node.results[i].index)][d] = true;
  }
  return is_batch;
}

bool mixes_samples(const Graph& graph) {
  std::vector<Places> places(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    for (ValueId v : node.results) places[at(v.index)].resize(graph.value(v).type.shape.size());
    for (std::size_t d : batch_dims_of_leaf(graph, node))
      places[at(node.results[0].index)][d] = {1, graph.value(node.results[0]).type.shape[d]};
    if (node.op->kind != OpKind::compute) continue;
    const Rule rule = rule_of(graph, node);
    Places loops(rule.loops.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (!add_loops(loops, rule, rule.operands[i], places[at(node.operands[i].index)])) return true;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      Places& result = places[at(node.results[i].index)];
      result = places_of(rule, rule.results[i], loops);
      const bool reads = std::ranges::any_of(loops, [](const auto& p) { return p.has_value(); });
      const bool has = std::ranges::any_of(result, [](const auto& p) { return p.has_value(); });
      if (reads && !has && element_count(graph.value(node.results[i]).type.shape) > 1) return true;
    }
  }
  return false;
}

Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh) {
  const Rule rule = rule_of(graph, node);
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_batch[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
      Strategy s = whole(rule);
      s.loops[at(rule.operands[i].dims[d][0])] = mesh.all_axes();
      if (!violation(rule, s, mesh)) return s;
    }
  return whole(rule);
}

}  // namespace shardwright
