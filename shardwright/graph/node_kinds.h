// What a node is: what programs ask of it in many places.
#pragma once

#include <string_view>

#include "shardwright/graph/op.h"
#include "shardwright/layout/collective.h"

namespace shardwright {

/// Nothing makes it in a step: a parameter, a state, an input, a sum that begins anew, what another stage sends.
inline bool is_leaf(const Node& node) {
  return node.op->kind != OpKind::compute && node.op->kind != OpKind::step;
}

/// An update of the rows that a batch has of a table, and of no others (ops/row_updates.h). Updates of whole tensors are
/// point-wise, so that they have blocks instead of a kernel.
inline bool updates_rows(const Node& node) { return node.op->optimizer && node.op->kernel; }

/// Between ranks, or between a device and its host.
inline bool is_transfer(const Node& node) {
  return node.op->kind == OpKind::step && !is_local(*node.op->step);
}

/// A parameter that is read and never trained, as its attribute says: it has no gradient, no states and no place in checkpoints.
constexpr std::string_view frozen_attribute = "frozen";
inline bool is_frozen(const Node& node) {
  return node.op->kind == OpKind::parameter && node.attributes.flag(frozen_attribute);
}

}  // namespace shardwright
