// The backward cut in two, so that a schedule can let the second part wait: gradients of inputs, for which the stage before
// waits, and gradients of weights, for which nobody does.
//
// That is read off the graph: the first part is what leads to something that is sent. So the first stage, of which nobody
// waits for anything, has only the second.
#pragma once

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Of a program, before its passes: nodes of the second part are of the phase `weights`, behind the first.
Graph with_split_backward(Graph graph);

}  // namespace shardwright
