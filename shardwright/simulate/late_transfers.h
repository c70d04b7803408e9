// An estimate of a program that is a piece of a stage, with what others of the stage have to know of it: transfers that the
// update waits for go once a step, however many micro-batches there are.
#pragma once

#include <algorithm>

#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// Of transfers, which other pieces' may join: starting one takes as long however much it moves.
struct Starts {
  double longest = 0;            // of one
  double moving = 0, bytes = 0;  // of all, started together

  void add(const Starts& other, double times = 1) {
    moving += times * other.moving, bytes += times * other.bytes;
    longest = std::max(longest, other.longest);
  }
};

struct PieceEstimate {
  Estimate all;
  OfPhases<double> late_seconds;  // of its phase_communication_seconds, what the update waits for
  Starts late_starts = {}, update_starts = {};  // of these, and of the update's own
};

PieceEstimate estimate_piece(Program program, const Cluster& cluster);

}  // namespace shardwright
