// Where the nodes of an ONNX model stand: in its graph, in a function that is called, or in a branch of an If. Functions
// and branches are taken in where they are used, so that the same name inside is another value each time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

class Scope {
 public:
  /// The model's own graph.
  explicit Scope(std::int64_t opset) : opset_(opset) {}
  /// The body of `function` where the node `call` of `outer` calls it. Throws: Error if there are more operands than it takes, or
  /// it is being called already.
  Scope(const Scope& outer, const onnx::NodeProto& call, const onnx::FunctionProto& function,
        std::int64_t opset);
  /// A graph of the node `user` of `outer`. Names that it does not give itself are those around it.
  Scope(const Scope& outer, const onnx::NodeProto& user, const onnx::GraphProto& graph);

  std::int64_t opset() const { return opset_; }
  /// How many functions and branches are around it.
  int depth() const { return depth_; }
  /// The value that `name` is, as the whole model calls it; empty for what is left out.
  std::string value(const std::string& name) const;
  /// What begins the names that are given here.
  const std::string& prefix() const { return prefix_; }
  /// The attribute `name` of `node`, or that of the function's call to which it refers, or what the function says
  /// otherwise; null if there is none.
  const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name) const;

 private:
  const onnx::AttributeProto* referred(const std::string& name) const;

  const Scope* outer_ = nullptr;
  const onnx::NodeProto* call_ = nullptr;  // of a function
  const onnx::FunctionProto* function_ = nullptr;
  std::int64_t opset_ = 0;
  int depth_ = 0;
  std::string prefix_;
  std::unordered_map<std::string, std::string> bound_;  // a function's operands and results
  std::unordered_set<std::string> own_;                 // names that a branch gives
  std::map<std::string, onnx::AttributeProto, std::less<>> defaults_;
};

/// What the node is called in messages.
std::string name_of(const onnx::NodeProto& node);

}  // namespace shardwright
