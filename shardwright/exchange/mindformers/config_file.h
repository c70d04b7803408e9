// Configuration files of model suites, as seed 003 shows them: YAML with a section for each part of a training. Read
// here is what says how to split, how large a batch is and how it is computed, and what a run does beside its steps
// (config_training.h); sections of other parts are passed over.
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

namespace shardwright {

/// What a file says of settings (search/planning/settings.h), in the words of their flags.
struct Config {
  struct Said {
    std::string flag;
    std::string text;
    std::string key;        // that says it: `parallel.search_mode`
    bool is_usual = false;  // it is so where nobody says it
    bool is_off = false;    // it is so unless a search of whole plans chooses otherwise
  };
  std::vector<Said> said;
  std::vector<std::string>
      notices;  // keys that ask for what there is not yet or have no effect, and why: a line each

  /// What a global batch is made of.
  struct Batch {
    std::optional<std::int64_t> size;  // batch_size
    std::string key;                   // that says it
    bool is_full = false;
    std::int64_t data_parallel = 1;
    std::int64_t interleave = 1;  // micro_batch_interleave_num
    std::int64_t parts = 1;       // micro_batch_num of several stages, gradient_accumulation_steps of one
  };
  Batch batch;
};

/// Throws: Error that names file and key if it is no YAML, a key is unknown or given twice, a value is of another type,
/// or two keys contradict each other.
Config load_config(const std::string& path);

/// Samples of a step on all devices together, by seed 003's table: batch_size times data_parallel (full batch) or
/// `devices` (not), times micro_batch_interleave_num, times micro_batch_num (pipeline) or gradient_accumulation_steps
/// (no pipeline). Nothing without a batch_size. Throws: Error if the product is too large.
std::optional<std::int64_t> global_batch(const Config::Batch& batch, std::int64_t devices);

}  // namespace shardwright
