// A train step: forward, backward and optimizer update in one graph.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/base/attributes.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Which optimizer operator updates the parameters, and its attributes (rate, momentum, ...).
struct OptimizerChoice {
  std::string name = "sgd";
  Attributes attributes{{"rate", 0.01}};
  double clip_norm = 0;  // above 0: gradients are scaled so that their norm all together is at most this
  /// Gradients of parameters with a master are reduced in the type of the parameter, not of the master.
  bool reduces_short = false;
};

/// The optimizer operator called `name`. Throws: Error that lists them.
const OpDef& optimizer_called(std::string_view name);

/// The state `optimizer.step`, f32[], the count of steps done; made if there is none. What differs from step to
/// step (dropout) reads it, and add_train_step lets it count.
ValueId step_count(Builder& builder);

/// That state, or an invalid id.
ValueId existing_step_count(const Graph& graph);

/// Adds backward and update nodes to `graph`. Outputs become the loss, then what the outputs were.
/// Every parameter that the loss depends on is updated; its states are leaves called `weight.momentum`. One whose
/// attribute `master` names a longer type than its own is updated in that, as `weight.master`.
/// Throws: Error if `name` is no optimizer, or as add_backward does.
void add_train_step(Graph& graph, ValueId loss, const OptimizerChoice& optimizer);

}  // namespace shardwright
