// Training runs that others have measured and published (tests/reference/published_runs.json), each as the command that
// asks for its price: what a user would type, and nothing else.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shardwright {

struct PublishedRun {
  std::string id;
  std::string source;                // group and hardware: what has a scalar of its own
  int year = 0;                      // that it was published
  std::vector<std::string> command;  // `estimate ... --json`
  double tokens = 0;                 // of a step
  int devices = 1;
  std::optional<double> seconds;           // of a step
  std::optional<double> memory_bytes;      // of a device
  std::optional<double> state_bytes = {};  // of parameters, gradients and states, as the source derives them
  bool is_last_stage = false;              // bytes are those of the last stage, not of the one that has most
  bool is_host_bound = false;              // so small that its time says nothing of devices
  bool is_reserved = false;                // they are what the allocator reserves, not what is allocated
  bool ran_out_of_memory = false;
};

/// All but those with experts, fp8 or LoRA, what cannot be said of (context parallelism, layers recomputed by number),
/// and rows that do not say what was run.
std::vector<PublishedRun> published_runs();

}  // namespace shardwright
