// What flags of `train` say of the loop (training/train.h): rates, held-out data, event files, checkpoints, limits.
#pragma once

#include <memory>
#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/frontend/evaluation.h"
#include "shardwright/training/train.h"

namespace shardwright {

CheckpointOptions checkpoint_options(const Arguments& arguments);

/// The same in all processes of a run.
struct AskedTraining {
  TrainingOptions options;                   // but for what needs a session
  std::shared_ptr<const AskedNetwork> eval;  // null: no held-out data
  Waiting waiting;                           // for ranks
};
/// `model`: of one micro-batch; `rate`: the optimizer's;
/// `plan`: of the step, on whose devices held-out data are looked at, too.
/// Throws: Error if flags contradict each other, or the data of --eval do not fit the model.
AskedTraining training_options(const Arguments& arguments, const Model& model, const Length& length,
                               double rate, const Plan& plan, const CheckpointPlans& checkpoints);

/// How many steps, and how many are an epoch of these data.
Length length_of(const Arguments& arguments, const TrainingData& data);

}  // namespace shardwright
