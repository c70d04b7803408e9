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

DrawnPipeline drawn_pipeline(std::uint64_t seed);

}  // namespace shardwright::testing
