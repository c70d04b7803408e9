// What each operator of a plan costs in a step: its own work and what its strategy makes the program communicate.
//
// The program is the one that lowering makes of the planned graph, before passes: kernels that are fused later count
// one by one here, and transfers that overlap count in full. So candidates can be compared one by one; what operators
// take of a step as it runs is the estimate's (simulate/operator_seconds.h).
//
// To an operator belong its nodes (plan/owners.h), collectives that reduce what these make, and those that bring what
// they read into the layout that they need.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// Collectives of one kind over the same axes in one phase.
struct CollectiveTraffic {
  StepKind kind = StepKind::all_reduce;
  std::string axes;
  Phase phase = Phase::forward;
  int count = 0;
  std::int64_t bytes = 0;  // received by one rank

  bool operator==(const CollectiveTraffic&) const = default;
};

struct OperatorCost {
  double compute_seconds = 0;
  double communication_seconds = 0;   // reductions of partial results and gradients
  double redistribution_seconds = 0;  // changes of layout
  std::int64_t weight_bytes = 0;      // parameters, their gradients and states
  std::int64_t kept_bytes = 0;        // results that the backward reads
  std::vector<CollectiveTraffic> traffic = {};

  double seconds() const { return compute_seconds + communication_seconds + redistribution_seconds; }
  std::int64_t bytes() const { return weight_bytes + kept_bytes; }
};

/// Something of a lowered program that costs time or memory, in terms of the graph that was lowered.
struct CostItem {
  NodeId node;    // a kernel's; of a transfer, who made the value
  NodeId reader;  // of a transfer, who reads the value first; invalid if it is only kept
  ValueId value;  // of a transfer, whose layout changes; of memory, what lies there
  enum class Kind { compute, transfer, weight, kept } kind = Kind::compute;
  bool is_reduction = false;  // of a transfer
  double seconds = 0;
  std::int64_t bytes = 0;          // of memory
  CollectiveTraffic traffic = {};  // of a transfer
};

/// Of `graph`, which is complete (plan/complete.h).
std::vector<CostItem> cost_items(const Graph& graph, Redistributor& redistributor, const Cluster& cluster);

/// Adds up: time, memory and collectives.
void add(OperatorCost& cost, const CostItem& item);

/// Per node of `graph`; only forward operators have costs.
std::vector<OperatorCost> operator_costs(const Graph& graph, Redistributor& redistributor,
                                         const Cluster& cluster);

}  // namespace shardwright
