#include "shardwright/search/dynamic/described_costs.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/cost/compute.h"
#include "shardwright/layout/rule_dims.h"
#include "shardwright/ops/touches.h"

namespace shardwright::dynamic {
namespace {

constexpr double impossible = 1e20;

double bytes_of(const Type& type, double parts) {
  return static_cast<double>(element_count(type.shape)) * static_cast<double>(size_of(type.dtype)) / parts;
}

/// Into how many a strategy cuts a tensor.
double parts_of(const RuleTensor& tensor, const Placed& placed) {
  double out = 1;
  for (const auto& loops : tensor.dims)
    for (int l : loops) out *= placed.mesh->count(placed.strategy->loops[at(l)]);
  return out;
}

/// A dim that the result lacks is split, so that it comes out partial.
bool is_partial(const RuleTensor& result, const Placed& placed) {
  for (std::size_t l = 0; l < placed.rule->loops.size(); ++l)
    if (placed.mesh->count(placed.strategy->loops[l]) > 1 && !has_loop(result, static_cast<int>(l)))
      return true;
  return false;
}

/// Bytes of a parameter's gradient that devices have to add up; of products the first operand's never count.
double repeated_bytes(const Placed& placed, int operand) {
  const Node& node = placed.graph->node(placed.node);
  const Value& value = placed.graph->value(node.operands[at(operand)]);
  if (placed.graph->node(value.producer).op->kind != OpKind::parameter) return 0;
  if (operand == 0 && work_kind(*placed.rule) != WorkKind::streaming) return 0;
  const double parts = parts_of(placed.rule->operands[at(operand)], placed);
  return parts == placed.devices ? 0 : bytes_of(value.type, parts);
}

/// Bytes of an operand that a device needs beyond its own part of it, where a window slides.
double halo_bytes(const Placed& placed, int operand) {
  const Layout layout = layouts_of(*placed.rule, *placed.strategy).operands[at(operand)];
  if (!layout.has_halo()) return 0;
  const Value& value = placed.graph->value(placed.graph->node(placed.node).operands[at(operand)]);
  const Shape with = largest_local_shape(layout, *placed.mesh, value.type.shape);
  return std::max(0.0, bytes_of({value.type.dtype, with}, 1) - operand_bytes(placed, operand));
}

/// All devices share dim 0 of operand 0 and nothing else.
bool is_of_the_batch(const Placed& placed) {
  if (placed.rule->operands.empty() || placed.rule->operands[0].dims.empty()) return false;
  double parts = 1;
  for (int l : placed.rule->operands[0].dims[0]) parts *= placed.mesh->count(placed.strategy->loops[at(l)]);
  return parts == placed.devices;
}

/// What is as dear otherwise is rather split by its batch.
void break_tie(double& bytes) {
  if (bytes > 1) bytes -= 1;
}

}  // namespace

CostWeights cost_weights(const Cluster& cluster) {
  constexpr double of_gpus = 50;
  CostWeights out;
  if (!cluster.links.empty() && cluster.links.front().kind == "nvlink") out.beta = of_gpus;
  return out;
}

double as_sent(double bytes) {
  constexpr double nothing = 1e-6, small = 2048, as_small = 3072, more = 1024;
  return bytes <= nothing ? bytes : bytes <= small ? as_small : bytes + more;
}

double operand_bytes(const Placed& placed, int operand) {
  const Value& value = placed.graph->value(placed.graph->node(placed.node).operands[at(operand)]);
  return bytes_of(value.type, parts_of(placed.rule->operands[at(operand)], placed));
}

double result_bytes(const Placed& placed, int result) {
  const Value& value = placed.graph->value(placed.graph->node(placed.node).results[at(result)]);
  return bytes_of(value.type, parts_of(placed.rule->results[at(result)], placed));
}

DescribedCost raw_cost(const Placed& placed) {
  const TouchCounts touches = touches_of(*placed.graph->node(placed.node).op);
  DescribedCost out;
  for (std::size_t i = 0; i < placed.rule->results.size(); ++i) {
    const double bytes = result_bytes(placed, static_cast<int>(i));
    out.computation += touches.result * bytes;
    if (!is_partial(placed.rule->results[i], placed)) continue;
    out.computation += touches.reduced_result * bytes;
    out.forward += bytes;
  }
  const bool is_reduced = out.forward > 0;
  constexpr int there_and_back = 2;
  for (std::size_t i = 0; i < placed.rule->operands.size(); ++i) {
    const double times = is_reduced && i < touches.split.size() ? touches.split[i] : touches.operand;
    out.computation += times * operand_bytes(placed, static_cast<int>(i));
    out.backward += repeated_bytes(placed, static_cast<int>(i));
    out.forward += there_and_back * halo_bytes(placed, static_cast<int>(i));
  }
  return out;
}

DescribedCost cost_of(const Placed& placed) {
  DescribedCost out = raw_cost(placed);
  if (is_of_the_batch(placed)) {
    double all = out.forward + out.backward;
    break_tie(all);
    break_tie(out.computation);
    break_tie(out.forward);
    out.backward = all - out.forward;
  }
  out.forward = as_sent(out.forward);
  return out;
}

DescribedCost cost_of_moving(const Spread& from, const Spread& to, const Type& type) {
  const MovedElements moved = moved_elements(from, to, type.shape);
  const auto size = static_cast<double>(size_of(type.dtype));
  if (type.dtype == DType::boolean && moved.forward > 0) return {.forward = impossible};
  return {.computation = size * moved.computation,
          .forward = as_sent(size * moved.forward) + as_sent(size * moved.backward)};
}

}  // namespace shardwright::dynamic
