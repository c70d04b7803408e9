// What operators make of numbers that are sums or means: so that other folders, which name no operator, can tell the mean
// of a batch, which is the mean of its parts' means, from what is another in parts of it.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "shardwright/graph/op.h"

namespace shardwright {

/// Divides what it sums by how many there are.
inline bool is_mean(const OpDef& op) {
  constexpr std::array<std::string_view, 3> means{"reduce_mean", "mean_absolute_error", "mean_squared_error"};
  return std::ranges::find(means, op.name) != means.end();
}

/// The value of a constant whose elements are all the same.
inline std::optional<double> constant_of(const Graph& graph, ValueId v) {
  const Node& node = graph.node(graph.value(v).producer);
  if (node.op->name == "cast" || node.op->name == "broadcast" || node.op->name == "reshape")
    return constant_of(graph, node.operands[0]);
  if (node.op->name != "fill") return std::nullopt;
  return node.attributes.number("value", 0);
}

/// Of `y = factor x + c`, x being operand 0 (or the other one than a constant): the factor.
inline std::optional<double> factor_of(const Graph& graph, const Node& node) {
  const std::string_view name = node.op->name;
  if (name == "scale") return node.attributes.number("factor", 1);
  if (name == "shift") return 1;
  if (name != "mul" && name != "div") return std::nullopt;
  auto constant = constant_of(graph, node.operands[1]);
  if (name == "div") return constant ? std::optional(1 / *constant) : std::nullopt;
  return constant ? constant : constant_of(graph, node.operands[0]);
}

}  // namespace shardwright
