// What is told of a plan that takes more memory than a device has, and the refusal of one beyond what a flag allows.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// Of a step of `what` that does not fit: by how much, and what takes most. `limit` is less: `a device of
/// a100-80g:8 has`.
std::string misfit_text(const Evaluation& evaluation, std::string_view limit,
                        std::string_view what = "the plan");

/// A line that says so of the devices of `cluster`, with its end; empty if the step fits. What every verb tells last.
std::string misfit_notice(const Evaluation& evaluation, const Cluster& cluster);
/// The same, and of what is kept on the host: that nothing goes there, or more than a host has.
std::string memory_notices(const Evaluation& evaluation, const Cluster& cluster, const Offload& offload);
inline std::string memory_notices(const Evaluation& evaluation, const Plan& plan) {
  return memory_notices(evaluation, plan.cluster, plan.settings.offload);
}

/// Throws: Infeasible if a step does not fit, saying by how much and what takes most. `limit` is what the user said of
/// memory: `--memory-cap 60GB allows`.
void check_memory(const Evaluation& evaluation, std::string_view limit);

}  // namespace shardwright
