// What the user has fixed of a plan, in terms of the graph: annotations and the parallel mode turned into meshes,
// strategies and layouts. Searches choose the rest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/layout/strategy.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// What the user has fixed, in terms of the graph.
struct FixedChoices {
  std::vector<Mesh> meshes;                         // the plan's; [0] is the one that annotations refine
  std::vector<std::optional<Strategy>> strategies;  // per node
  std::vector<std::string> reasons;                 // per node, why it is fixed
  std::map<ValueId, Layout> layouts;                // of inputs, parameters and results (out_strategy)
  bool repeats_tensor = false;                      // tp, of degrees, splits nothing here
  bool repeats_context = false;                     // cp neither
  bool has_context_ways = false;                    // of cp, attention has keys one way or another
};

/// Meshes, strategies and layouts that what is said of tensors asks for on `devices` devices. In semi_auto_parallel,
/// operators without annotation get the split of the batch, but for those that only see an operand otherwise.
/// Throws: Error for each thing that cannot be, naming the operator and both values.
FixedChoices fixed_choices_of(const Graph& graph, const Constraints& constraints, int devices, Parallel mode);

}  // namespace shardwright
