// What plans decide of: backward and update nodes follow, leaves and redistribution steps have no strategy of their own.
#pragma once

#include "shardwright/graph/op.h"

namespace shardwright {

inline bool is_forward_operator(const Node& node) {
  return node.op->kind == OpKind::compute && node.phase == Phase::forward;
}

}  // namespace shardwright
