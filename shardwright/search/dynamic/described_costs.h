// The described system's cost model (facts.md 3.2 to 3.5): bytes of a device that an operator touches in the forward and
// that it sends, not seconds.
//
//   cost = alpha computation + beta (forward + gamma backward),   alpha 1, beta 400 (GPUs that NVLink joins: 50), gamma 0.001
//
// forward: partial results, which are reduced where they are made, and redistributions; backward: gradients of parameters
// that devices repeat, which the backward hides. Nothing here names an operator: what is touched and sent is read off the
// rule; where the described system counts otherwise, ops/touches.h says so.
#pragma once

#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/strategy.h"
#include "shardwright/search/dynamic/described_moves.h"

namespace shardwright::dynamic {

/// What takes bytes, of a device.
struct DescribedCost {
  double computation = 0;
  double forward = 0, backward = 0;  // communication
};

struct CostWeights {
  double alpha = 1, beta = 400, gamma = 0.001;

  double of(const DescribedCost& c) const {
    return alpha * c.computation + beta * (c.forward + gamma * c.backward);
  }
};
/// By the innermost link, as a cluster does not say whose its devices are: what NVLink joins are GPUs.
CostWeights cost_weights(const Cluster& cluster);

/// What is sent in small messages counts more: a message of up to 2048 bytes takes as long as one of 3072, of more than
/// that as one of 1024 bytes more.
double as_sent(double bytes);

/// An operator under a strategy.
struct Placed {
  const Graph* graph = nullptr;
  NodeId node;
  const Rule* rule = nullptr;
  const Strategy* strategy = nullptr;
  const Mesh* mesh = nullptr;
  int devices = 1;
};

/// Before messages are refined and ties are broken.
DescribedCost raw_cost(const Placed& placed);
/// With both, as the search counts it.
DescribedCost cost_of(const Placed& placed);

/// Bytes of a device that an operand or a result takes.
double operand_bytes(const Placed& placed, int operand);
double result_bytes(const Placed& placed, int result);

/// Of a value of `type`; what must be moved but cannot (booleans) is dearer than anything else.
DescribedCost cost_of_moving(const Spread& from, const Spread& to, const Type& type);

}  // namespace shardwright::dynamic
