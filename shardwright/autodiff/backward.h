// Reverse-mode differentiation on the logical graph, before any split. Forward, backward and update are
// ordinary nodes; nothing here knows of devices. The seed of the loss is 1; means divide by global counts, so
// there is no division by replicas anywhere.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// The type in which `parameter` is updated, where that is longer than its own (attribute `master`).
/// Throws: Error if it names none.
std::optional<DType> master_type(const Graph& graph, ValueId parameter);

struct BackwardOptions {
  ValueId loss_scale = {};  // a scalar that all gradients are multiplied with; invalid: 1
  /// Whose gradients are wanted; empty: those of all parameters but frozen ones.
  std::vector<ValueId> of = {};
  /// Gradients of parameters with a master are of its type: what contributes to one is cast where it comes out, and
  /// summed in that type.
  bool in_master_types = false;
};

/// Adds backward nodes to `graph` and returns the gradient of each parameter that is trained, or of each wanted value, that
/// `loss` depends on.
/// A value with several contributions gets one n-ary sum. Each backward node remembers the forward node that
/// it differentiates; each gradient the value it belongs to.
/// Throws: Error if the loss is not a floating scalar, or a needed operator has no gradient.
std::map<ValueId, ValueId> add_backward(Graph& graph, ValueId loss);
/// The same by a builder that goes on to add what follows.
std::map<ValueId, ValueId> add_backward(Builder& builder, ValueId loss, const BackwardOptions& options = {});

}  // namespace shardwright
