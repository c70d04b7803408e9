// Pipelines drawn at random: networks, stages, meshes, schedules and all that a plan may ask for, in any mix.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/lower/pipeline.h"

namespace shardwright::testing {

struct DrawnPipeline {
  std::string what;  // how it was drawn
  Pipeline pipeline;
};

/// `verifies`: its graph after each pass, as one test of all seeds does; it takes longer than all else.
DrawnPipeline drawn_pipeline(std::uint64_t seed, bool verifies = false);

}  // namespace shardwright::testing
