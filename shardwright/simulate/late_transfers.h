// An estimate of a program that is a piece of a stage, with what others of the stage have to know of it: transfers that the
// update waits for go once a step, however many micro-batches there are.
#pragma once

#include "shardwright/simulate/estimate.h"

namespace shardwright {

struct PieceEstimate {
  Estimate all;
  OfPhases<double> late_seconds;  // of its phase_communication_seconds, what the update waits for
};

PieceEstimate estimate_piece(Program program, const Cluster& cluster);

}  // namespace shardwright
