// What all ranks of an MPI run have to be told alike (runtime/agreement.h), of a command line and of a training.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/cli/training_options.h"
#include "shardwright/frontend/model.h"
#include "shardwright/runtime/agreement.h"

namespace shardwright {

/// The verb, its words and its flags, but for flags that only say what a rank prints, and for files whose contents are
/// compared.
std::vector<Agreement> agreements_of(const Arguments& arguments);

struct TrainingContents {
  const std::string& plan;  // as JSON
  const Pipeline& program;
  const TrainingData& data;
  const Length& length;
  const std::map<std::string, InitialValue>& initial;
  const CheckpointPlans& checkpoints;
  const AskedTraining& asked;
  const std::vector<Prepared>& shorter;  // programs for shorter sequences
};

/// And what a training has made of them.
std::vector<Agreement> agreements_of(const Arguments& arguments, const TrainingContents& contents);

}  // namespace shardwright
