// Lists of tensors: SplitToSequence, SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt,
// SequenceLength, ConcatFromSequence.
//
// How long a list is and which tensor is meant is known while the model is loaded, so that a list is names of values. What
// takes one out is another name for it; lists themselves are no values and are in no graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/frontend/onnx/made_nodes.h"

namespace shardwright {

class Sequences {
 public:
  static bool takes(const onnx::NodeProto& node);
  /// Adds the nodes that do what `node` does. The name of a list is given by the caller. Throws: Error if it cannot be.
  void add(const onnx::NodeProto& node, const AroundNode& around);
  bool has(const std::string& name) const { return lists_.contains(name); }

 private:
  const std::vector<std::string>& at(const std::string& name) const;
  void split(const onnx::NodeProto& node, const AroundNode& around);
  void concat(const onnx::NodeProto& node, const AroundNode& around) const;
  void change(const onnx::NodeProto& node, const AroundNode& around);

  std::map<std::string, std::vector<std::string>> lists_;
};

}  // namespace shardwright
