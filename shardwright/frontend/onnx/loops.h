// Scan and Loop, as the nodes of all their rounds: the graph has no loops.
//
// The number of rounds is known while the model is loaded: that of the parts of what is scanned, or of a Loop what it is
// given, or up to the round whose condition is known to be false. Values of the body are called NODE.ROUND.NAME.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shardwright/frontend/onnx/messages.h"
#include "shardwright/frontend/onnx/values.h"

namespace shardwright {

/// What is asked of the import around a loop.
struct AroundLoop {
  std::int64_t opset = 0;
  std::function<const Known&(const std::string&)> at;  // throws if there is no such value yet
  std::function<void(const onnx::NodeProto&)> add;
  std::int64_t& budget;  // of nodes
};

bool is_loop(const onnx::NodeProto& node);

/// Adds the nodes that do what `loop` does. Throws: Error if the number of rounds is not known, or the body holds what is
/// not supported there.
void unroll(const onnx::NodeProto& loop, const AroundLoop& around);

}  // namespace shardwright
