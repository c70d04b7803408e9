// Models, batches and machines that nobody has chosen, for a search of whole plans.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/cost/cluster.h"

namespace shardwright {

/// What a plan is asked for.
struct PlanCase {
  std::string model;
  Cluster cluster;
  std::int64_t batch = 0;
  bool keeps_batch = false;  // parts of it have other losses
  std::string loss = {};     // as --loss
  std::string precision = "bf16";
  std::string framework = {};  // empty: ours
};

/// Decoders of drawn sizes, known ones, chains of products, images; from a few samples to many; on 8 to 1,024 devices of four
/// kinds, every fourth with a slow network between nodes.
PlanCase drawn_case(std::uint64_t seed);

}  // namespace shardwright
