// What a node is: what programs ask of it in many places.
#pragma once

#include "shardwright/graph/op.h"
#include "shardwright/layout/collective.h"

namespace shardwright {

/// Nothing makes it in a step: a parameter, a state, an input, a sum that begins anew, what another stage sends.
inline bool is_leaf(const Node& node) {
  return node.op->kind != OpKind::compute && node.op->kind != OpKind::step;
}

/// Between ranks, or between a device and its host.
inline bool is_transfer(const Node& node) {
  return node.op->kind == OpKind::step && !is_local(*node.op->step);
}

}  // namespace shardwright
