// Configuration files of model suites, as seed 003 shows them: YAML with a section for each part of a training. Read
// here is what says how to split and how large a batch is; sections of other parts are passed over.
//
//   use_parallel: True
//   parallel: {parallel_mode: 2, search_mode: recursive_programming, full_batch: True}
//   parallel_config: {data_parallel: 8, mem_coeff: 0.1}
//   runner_config: {batch_size: 1, gradient_accumulation_steps: 8}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// What a file says of planning. What it does not say is absent or neutral.
struct Config {
  std::optional<Parallel> mode;         // stand_alone where use_parallel is False
  std::optional<std::int64_t> devices;  // parallel.device_num
  std::string search;                   // parallel.search_mode
  std::optional<double> mem_coeff;
  std::optional<bool> fully_use_devices;
  std::optional<bool> elementwise_follow;           // parallel.elementwise_op_strategy_follow
  std::string dataset_strategy;                     // as --dataset-strategy takes it
  std::int64_t optimizer_parallel = 0;              // level
  std::optional<std::int64_t> optimizer_threshold;  // bytes
  std::optional<std::int64_t> optimizer_group;
  std::string comm_fusion;       // as --comm-fusion takes it; empty: not said
  std::string recompute;         // as --recompute takes it, or empty
  std::string precision;         // as --precision takes it; empty: not said
  std::string precision_key;     // that says it
  std::string reduce_precision;  // as --reduce-precision takes it; empty: not said
  std::string loss_scale;        // as --loss-scale; empty: not said
  std::optional<std::int64_t> epochs;

  std::optional<std::int64_t> batch_size;  // of the file; see global_batch
  bool is_full_batch = false;
  std::int64_t data_parallel = 1;
  std::int64_t interleave = 1;     // micro_batch_interleave_num
  std::int64_t accumulation = 1;   // gradient_accumulation_steps
  std::int64_t stages = 1;         // parallel_config.pipeline_stage
  std::int64_t micro_batches = 1;  // parallel_config.micro_batch_num

  std::vector<std::string> inactive;  // keys that ask for what there is not yet
  std::vector<std::string>
      idle;  // what says something that has no effect beside the rest, and why: a line each
};

/// Throws: Error that names file and key if it is no YAML, a key is unknown or given twice, a value is of another type,
/// or two keys contradict each other.
Config load_config(const std::string& path);

/// Samples of a step on all devices together, by seed 003's table: batch_size times data_parallel (full batch) or
/// `devices` (not), times micro_batch_interleave_num, times micro_batch_num (pipeline) or gradient_accumulation_steps
/// (no pipeline). Nothing without a batch_size. Throws: Error if the product is too large.
std::optional<std::int64_t> global_batch(const Config& config, std::int64_t devices);

}  // namespace shardwright
