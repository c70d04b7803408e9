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
  double seconds = 0;            // of all, as they are
  double full = 0;               // buckets that their bytes fill

  void add(const Starts& other, double times = 1) {
    moving += times * other.moving, bytes += times * other.bytes, seconds += times * other.seconds;
    full += times * other.full;
    longest = std::max(longest, other.longest);
  }
};

/// Of all that moves parameters or their gradients.
struct PieceStarts {
  OfPhases<Starts> gathers = {};  // of weights in the passes of a micro-batch
  Starts sums = {};               // of gradients in its backward
  Starts late = {}, update = {};  // once a step: of what the update waits for, and its own

  void add(const PieceStarts& other, double times = 1) {
    for (Phase phase : {Phase::forward, Phase::backward}) gathers[phase].add(other.gathers[phase], times);
    for (Starts PieceStarts::*part : {&PieceStarts::sums, &PieceStarts::late, &PieceStarts::update})
      (this->*part).add(other.*part, times);
  }
};

struct PieceEstimate {
  Estimate all;
  OfPhases<double> late_seconds = {};  // of its phase_communication_seconds, what the update waits for
  PieceStarts starts = {};
};

PieceEstimate estimate_piece(Program program, const Cluster& cluster);

}  // namespace shardwright
