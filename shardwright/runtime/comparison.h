// A recorded step beside what was predicted for it, part by part.
//
// Of the recorded steps the one of median length counts, so that its parts add up to it. All seconds are means over the
// ranks: a step's own seconds, because a rank that is done waits for the others, are kernels, waiting for collectives,
// waiting for other stages, and the rest. Predicted seconds are the estimate's: kernels and transfers by StagePrices,
// which it adds up, and its exposed communication and bubble. The same is told twice: by what it is for, in the words of
// simulate/step_parts.h, and by operators and collectives.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/recorded_file.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {

struct ComparedPart {
  std::string name;
  double count = 0;  // in a step
  double measured_seconds = 0;
  double predicted_seconds = 0;
};

struct StepComparison {
  std::vector<ComparedPart>
      terms;  // compute, communication, bubble, recompute, other: they add up to the step
  ComparedPart update{.name = "update"};  // of compute, what the optimizer does
  std::vector<ComparedPart> operators;    // kernels, by the operator that each begins with
  std::vector<ComparedPart> collectives;  // by kind: what compute waits for, or does itself
  ComparedPart bubble{.name = "bubble"};
  ComparedPart others{.name = "others"};  // inputs, outputs, and what lies between instructions
  ComparedPart step{.name = "step"};      // all of the above
  std::vector<ComparedPart> stages;       // kernels and collectives of the devices of each
};

/// Throws: Error if no step was recorded.
StepComparison compared(const Pipeline& pipeline, const Cluster& cluster, const StepTrace& trace);

/// The same of a step that a file tells of. Throws: Error if it was not one of this plan.
StepComparison compared(const Pipeline& pipeline, const Cluster& cluster, const MeasuredRanks& step);

/// What is predicted of it alone.
StepComparison predicted(const Pipeline& pipeline, const Cluster& cluster);

}  // namespace shardwright
