// What one piece of a network takes on the devices of a stage, from the program that it becomes there.
#pragma once

#include "shardwright/search/automatic/network.h"
#include "shardwright/search/automatic/structure.h"

namespace shardwright::search {

struct Figures {
  double forward = 0, backward = 0;  // seconds of a micro-batch, with what it waits for
  double update = 0;                 // seconds of a step
  double communication = 0;          // seconds of all transfers of a step of at most 2 micro-batches
  double reduction = 0;              // of these, what data parallelism adds
  double received = 0;               // bytes that a device receives of a micro-batch, in the forward
  double parameters = 0, states = 0, sums = 0;  // bytes that last; of gradients their sums
  double gradients = 0;                         // bytes that wait for the update, where nothing is summed
  double kept = 0;                              // bytes of a micro-batch from its forward to its backward
  double passing = 0;  // bytes beside what lasts and is kept, where most are: with its own gradients

  double pass() const { return forward + backward; }
  double lasting() const { return parameters + states + sums; }
};

/// As they are at least where `replicas` share them by that level of optimizer parallelism.
Figures sharded(Figures alone, int level, int replicas);

/// Where, and for what, figures are.
struct FiguresFor {
  const PlanRequest& request;
  const Cluster& stage;  // its devices
  int summed = 1;        // micro-batches, of which gradients are added up
};

/// Of a piece of `kind`. Throws: Error where `s` cannot split it.
Figures figures_of(const Network& network, int kind, const Structure& s, const FiguresFor& what);

}  // namespace shardwright::search
