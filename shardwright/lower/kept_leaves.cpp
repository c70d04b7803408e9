#include "shardwright/lower/kept_leaves.h"

#include "shardwright/graph/op.h"

namespace shardwright {

bool is_kept_leaf(const Node& node) {
  switch (node.op->kind) {
    case OpKind::parameter:
    case OpKind::state:
    case OpKind::accumulator: return true;
    case OpKind::receive: return node.attributes.integer("once", 0) == 1;
    default: return false;
  }
}

}  // namespace shardwright
