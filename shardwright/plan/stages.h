// Pipeline stages: a train step cut into parts that run on disjoint devices.
//
// Every forward node has a stage, and what it reads comes from the same stage or an earlier one. The rest follows: a
// backward node runs where its forward node does; a parameter lives where it is first read, its gradients are summed
// and its update runs there. Each stage becomes a graph of its own, which is planned, lowered and optimized like any
// other. What a stage reads of another is a crossing: the one sends a value, the other has a leaf `receive` of the same
// name. A tied weight crosses once a step, its gradient back; inputs are read by every stage that wants them; and what
// depends on nothing but constants and on states that only count is done by every stage for itself.
#pragma once

#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// A value that one stage makes and another reads.
struct Crossing {
  int from = 0;         // stage
  int to = 0;           // stage
  int send = 0;         // which of the sends of `from`
  std::string receive;  // leaf of `to`; the value has the same name in `from`
  bool operator==(const Crossing&) const = default;
};

struct StagedGraph {
  /// An output of the whole network.
  struct Output {
    int stage = 0;
    int index = 0;  // among the stage's outputs
  };

  std::vector<Graph> stages;
  std::vector<Crossing> crossings;
  std::vector<Output> outputs;
};

/// Cuts `graph`, a network or a train step, by the stages of its forward nodes (others are not looked at), for
/// `micro_batches` of its batches (autodiff/accumulate.h). Of `wanted` stages, where some are named, the others' graphs and
/// what they send are left out.
/// Throws: Error if a stage has no operator, an operator reads a later stage's result, or a state takes its next value
/// from another stage than the one that reads it.
StagedGraph cut_into_stages(const Graph& graph, const std::vector<int>& stage_of_node, int stages,
                            int micro_batches, const std::vector<int>& wanted = {});

/// Whether `part` makes the value called `name` itself, and does not receive it.
bool makes(const Graph& part, std::string_view name);

}  // namespace shardwright
