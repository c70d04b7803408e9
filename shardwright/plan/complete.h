// From forward strategies to the whole train step: what the backward and the update do follows from rules.
//
// - A backward node takes its forward node's strategy, restricted to the loop dims that they share. Which
// dims
//   those are is read off the values: operands of the forward node, its results and their gradients have
//   known loop dims, and calls in between pass them on.
// - An n-ary sum of gradients stays partial over the axes over which all addends are partial; its dims are
//   those of the addend (or of the forward value) with the least redistribution in and on.
// - An update takes the layout of its parameter's optimizer state.
#pragma once

#include <map>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// Fills in the strategies of backward and update nodes of `graph`, whose forward nodes have strategies and
/// whose leaves have layouts. `update_layouts`: per parameter the layout of its update where that is not the
/// layout of its first state, or, without states, of the parameter itself.
/// Throws: Error if a forward strategy is missing or illegal.
/// Cost: O(nodes); what is worked out for one node serves all that stand alike.
void complete(Graph& graph, Redistributor& redistributor,
              const std::map<ValueId, Layout>& update_layouts = {});
/// The same where `calls` of the graph are known.
void complete(Graph& graph, Redistributor& redistributor, const std::map<ValueId, Layout>& update_layouts,
              const Calls& calls);

}  // namespace shardwright
