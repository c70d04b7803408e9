// How long the passes of a step take in stages: the schedules' own bubbles (plan/schedule.h).
//
// Of a device, t = f + b are the passes of a micro-batch through all of its V chunks, and W the forwards of chunks that it
// runs before its first backward. That backward ends when the first micro-batch has passed all chunks forward, and back those
// behind; then all is left but those W and one backward, and last the backward of the chunks in front:
//
//   T >= sum of all f + (sum of the others' b + b) / V + M t - (W f + b) / V
//
// for each device, and the largest of these is what simulations of equal and unequal stages take. With GPipe all forwards come
// first, so that none of them is behind: W = 1. Other schedules have no such form: their tasks are played (tasks_in_time.h),
// and no more than M t of a device is sure.
#pragma once

#include <vector>

#include "shardwright/plan/schedule.h"

namespace shardwright::automatic {

/// Seconds of a micro-batch.
struct Pass {
  double forward = 0, backward = 0;
  double share_of_weights = 0.5;  // of a backward that is cut in two, what the second half takes
  double all() const { return forward + backward; }
  Pass& operator+=(const Pass& other) {
    forward += other.forward, backward += other.backward;
    return *this;
  }
};

/// What a part sends the next of a micro-batch, and is sent back.
struct Crossing {
  double starting = 0,
         moving = 0;  // seconds; what else crosses at the same time has a share of those in which it moves
  int level = 0;      // of the links that it is on
  double seconds() const { return starting + moving; }
};

/// Of T what depends on a device's own passes alone: so many of each. Grows with both.
struct StageForm {
  double forwards = 0, backwards = 0;
  double seconds(const Pass& own) const { return forwards * own.forward + backwards * own.backward; }
};
StageForm form_of_stage(const Pipelining& p, int stage);

/// T. `stages`: of the devices of each; `crossings`: by the part that sends; all zero if it is empty. Where they are long, they
/// delay every micro-batch: no more of them are under way than the schedule has begun.
double pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                        const std::vector<Crossing>& crossings = {});

/// T where the parts of a device take unlike long: `parts`, by part.
double pipeline_seconds_of_parts(const Pipelining& p, const std::vector<Pass>& parts,
                                 const std::vector<Crossing>& crossings);

/// What T is at least, however a backward is cut in two: of schedules with the form T itself.
double sure_pipeline_seconds(const Pipelining& p, const std::vector<Pass>& stages,
                             const std::vector<Crossing>& crossings = {});

/// T of `all` passes, cut into stages as is best.
double least_pipeline_seconds(const Pipelining& p, const Pass& all);

}  // namespace shardwright::automatic
