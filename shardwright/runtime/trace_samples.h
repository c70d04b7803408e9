// What a trace file says that kernels and collectives have taken, as samples for a fit (cost/calibrate.h).
#pragma once

#include <string>
#include <vector>

#include "shardwright/cost/calibrate.h"

namespace shardwright {

struct TraceSamples {
  Cluster cluster;  // that the step was planned for
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
};

/// Of a file of `train --trace`. A kernel's seconds are the median of its runs; a collective's those of the rank that
/// comes last, which waits for nobody.
/// Throws: Error naming the file if it is no such trace.
TraceSamples samples_of_trace(const std::string& path);

}  // namespace shardwright
