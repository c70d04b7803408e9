// What `train` knows before ranks start, from its flags: every rank of an MPI run works it out for itself; the first proves
// it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "shardwright/cli/run_page.h"
#include "shardwright/cli/train_report.h"
#include "shardwright/cli/training_options.h"
#include "shardwright/frontend/training_data.h"

namespace shardwright {

struct PreparedTraining {
  TrainingData data;
  std::map<std::string, InitialValue> initial;
  std::shared_ptr<const ModelFolder> folder;  // of the model, if it is one
  bool takes_weights = false;                 // that are there
  std::string save_folder, save_merged;       // empty: none is written
  Prepared program;
  std::vector<Prepared> shorter;  // programs for shorter sequences, of --buckets
  Reporter reporter;
  CheckpointPlans checkpoints;
  AskedTraining asked;
  std::string trace_path;
  Cluster cluster;        // that the plan is for
  bool compares = false;  // with what was predicted for it
  std::string misfit;     // a line, if the plan is too large for the devices that it is for
  std::optional<RunPage> page;
};

/// `lock`: of the folder of --save, of the first rank, where it was there before. `copies`: of the state, that a lost job has left.
/// Tells the plan and what there is to notice.
/// Throws: Error as planning and reading data do, or if flags contradict each other.
PreparedTraining prepare_training(const Arguments& arguments, std::optional<FolderLock> lock,
                                  std::optional<Checkpoint> copies, Terminal& terminal);

}  // namespace shardwright
