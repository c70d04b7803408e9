#include "shardwright/plan/batch.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/ops/means.h"

namespace shardwright {
namespace {

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

/// What is reduced over the samples of a micro-batch.
struct Reduced {
  bool is_mean = true;  // else a sum
  std::int64_t samples = 1;
  NodeId by;
};

/// A walk over what the loss is made of: a mean over the batch is the mean of the means of its parts, whatever is linear
/// of it, too; all else that is made of several samples is another in parts of the batch.
class Mixing {
 public:
  explicit Mixing(const Graph& graph)
      : graph_(graph), places_(graph.values.size()), reduced_(graph.values.size()) {}

  NodeId first() {
    if (graph_.outputs.empty()) return {};
    const std::vector<bool> counts = find_counting();
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) break;
      if (!counts[at(id.index)]) continue;
      for (ValueId v : node.results) places_[at(v.index)].resize(graph_.value(v).type.shape.size());
      for (std::size_t d : batch_dims_of_leaf(graph_, node))
        places_[at(node.results[0].index)][d] = {1, graph_.value(node.results[0]).type.shape[d]};
      if (node.op->kind == OpKind::compute && mixes(id, node)) return id;
    }
    const auto& loss = reduced_[at(graph_.outputs.front().index)];
    return loss && !loss->is_mean ? loss->by : NodeId{};
  }

 private:
  /// Per node whether the loss is made of it.
  std::vector<bool> find_counting() const {
    std::vector<bool> out(graph_.nodes.size());
    out[at(graph_.value(graph_.outputs.front()).producer.index)] = true;
    for (std::size_t n = out.size(); n-- > 0;)
      for (ValueId v : graph_.nodes[n].operands)
        if (out[n]) out[at(graph_.value(v).producer.index)] = true;
    return out;
  }

  bool mixes(NodeId id, const Node& node) {
    const std::shared_ptr<const Rule> shared = shared_rule_of(graph_, node);
    const Rule& rule = *shared;
    Places loops(rule.loops.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (!add_loops(loops, rule, rule.operands[i], places_[at(node.operands[i].index)])) return true;
    int by = -1;  // the loop of the samples
    for (std::size_t l = 0; l < loops.size(); ++l)
      if (loops[l] && (by >= 0 || rule.loops[l].stays_whole()))
        return true;  // each sample with each other
      else if (loops[l])
        by = static_cast<int>(l);
    const std::optional<Reduced> read = reduced_operand(node);
    if (read && (by >= 0 || !is_linear(rule, node))) return true;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const std::size_t v = at(node.results[i].index);
      places_[v] = places_of(rule, rule.results[i], loops);
      reduced_[v] = read;
      if (by < 0 || std::ranges::any_of(places_[v], [](const auto& p) { return p.has_value(); })) continue;
      if (rule.loops[at(by)].kind == LoopKind::max) return true;
      reduced_[v] = Reduced{is_mean(*node.op), loops[at(by)]->samples, id};
    }
    return false;
  }

  /// What the operands are together, those that are reduced.
  std::optional<Reduced> reduced_operand(const Node& node) const {
    std::optional<Reduced> out;
    for (ValueId v : node.operands)
      if (const auto& r = reduced_[at(v.index)]; r && (!out || !r->is_mean)) out = r;
    if (!out || out->is_mean) return out;
    if (const auto factor = factor_of(graph_, node); factor && *factor != 0) {
      // A sum that is divided by how many there are is a mean; each sample may have several.
      const double of_each = 1 / std::abs(*factor) / static_cast<double>(out->samples);
      out->is_mean = of_each > 0.5 && std::abs(of_each - std::round(of_each)) < 1e-5 * of_each;
    }
    return out;
  }

  /// In all operands that are reduced, together.
  bool is_linear(const Rule& rule, const Node& node) const {
    if (factor_of(graph_, node)) return true;
    return std::ranges::any_of(rule.linear, [&](const std::vector<int>& group) {
      for (std::size_t i = 0; i < node.operands.size(); ++i)
        if (reduced_[at(node.operands[i].index)] && !std::ranges::count(group, static_cast<int>(i)))
          return false;
      return true;
    });
  }

  const Graph& graph_;
  std::vector<Places> places_;                   // per value
  std::vector<std::optional<Reduced>> reduced_;  // per value
};

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

std::optional<std::int64_t> samples_of(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (const auto dims = batch_dims_of_leaf(graph, node); !dims.empty())
      return graph.value(node.results.front()).type.shape[dims.front()];
  return std::nullopt;
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
    const std::shared_ptr<const Rule> shared = shared_rule_of(graph, node);
    const Rule& rule = *shared;
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

NodeId first_mixing(const Graph& graph) { return Mixing(graph).first(); }

std::string mixing_notice(const Graph& graph, int micro_batches, int interleave) {
  if (micro_batches * interleave == 1) return "";
  const NodeId id = first_mixing(graph);
  if (!id.is_valid()) return "";
  const bool has_parts = interleave > 1;
  return fmt::format(
      "{} micro-batch{}{}: %{} ({}) works over the samples of a {}, so losses differ from those of the whole "
      "batch at once",
      micro_batches, micro_batches == 1 ? "" : "es", has_parts ? fmt::format(" in {} parts", interleave) : "",
      graph.name_of(id), graph.node(id).op->name, has_parts ? "part" : "micro-batch");
}

Strategy batch_strategy(const Graph& graph, const Node& node, const BatchDims& is_batch, const Mesh& mesh) {
  const std::shared_ptr<const Rule> shared = shared_rule_of(graph, node);
  const Rule& rule = *shared;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      if (!is_batch[at(node.operands[i].index)][d] || rule.operands[i].dims[d].empty()) continue;
      Strategy s = whole(rule);
      s.loops[at(rule.operands[i].dims[d][0])] = mesh.all_axes();
      if (!violation_if_even(rule, s, mesh)) return s;
    }
  return whole(rule);
}

}  // namespace shardwright
