// Scan and Loop, as the nodes of all their rounds: the graph has no loops.
//
// The number of rounds is known while the model is loaded: that of the parts of what is scanned, or of a Loop what it is
// given, or up to the round whose condition is known to be false. Values of the body are called NODE.ROUND.NAME.
#pragma once

#include "shardwright/frontend/onnx/made_nodes.h"

namespace shardwright {

bool is_loop(const onnx::NodeProto& node);

/// Adds the nodes that do what `loop` does. Throws: Error if the number of rounds is not known, or the body holds what is
/// not supported there.
void unroll(const onnx::NodeProto& loop, const AroundNode& around);

}  // namespace shardwright
