// Which steps move parameters: those that reduce a parameter's gradient, and those that gather its weight.
//
// They are found from where they end. What an optimizer's node takes as gradient is followed upwards, through steps
// and point-wise nodes that keep the number of elements (an accumulator, a clipping factor): the sums on that way are
// the gradient's. A gather of a parameter, or of what will be one after the step, is the weight's.
#pragma once

#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Per node the parameter whose gradient it reduces or whose weight it gathers; invalid for all others.
std::vector<ValueId> parameter_steps(const Graph& graph);

/// Whether it fetches a part of what goes round.
bool goes_round(const Graph& graph, const Node& node);

/// Per node whether it gathers what has been there long before: a weight for the forward or backward, for the backward
/// what the forward has made, or one part after the other of what goes round. Its result has its place from where it starts.
std::vector<bool> gathers_ahead(const Graph& graph);
/// `parameters`: its parameter_steps.
std::vector<bool> gathers_ahead(const Graph& graph, const std::vector<ValueId>& parameters);

}  // namespace shardwright
