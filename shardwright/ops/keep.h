// `keep`: what of a forward value the backward will read, when it recomputes (lower/recompute.h). An operator of its
// own, so that passes see where the kept value and the forward's forms of it part.
#pragma once

#include "shardwright/graph/op.h"

namespace shardwright {

inline const OpDef& keep_op() { return find_op("keep"); }

}  // namespace shardwright
