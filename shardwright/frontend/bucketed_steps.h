// A model for sequences of several lengths (`--buckets`): a program and a plan for each, over the same weights and states.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/frontend/sample_source.h"
#include "shardwright/frontend/source.h"
#include "shardwright/runtime/prepare.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/training/train.h"

namespace shardwright {

/// `64,128,256`. Throws: Error unless they ascend.
std::vector<std::int64_t> bucket_lengths(std::string_view text);

/// `spec` for the longest of these, whose labels may be left out. Throws: Error if it says another length, or has none.
std::string spec_of_longest(const std::string& spec, const std::vector<std::int64_t>& lengths);

/// The train steps of all `lengths`, the longest first, which is `longest`. Each has a plan of its own (search/planning/plan_alike.h), found
/// as `request`, which is of the longest, says; where a file has given that one, that, by names. Tells how each differs, and what it takes.
/// Throws: Error that names the length for which there is none.
std::vector<StepToPrepare> bucketed_steps(StepToPrepare longest, const std::vector<std::int64_t>& lengths,
                                          const PlanRequest& request, bool is_given, std::ostream& notices);

/// Documents in batches of one length each (runtime/data/length_buckets.h), as many samples as a step takes; tells of each length how
/// many there are, and of how many documents nothing but the beginning is seen.
TrainingData bucketed_data(const Model& model, int micro_batches, const SampleSource& source,
                           const std::vector<std::int64_t>& lengths, std::uint64_t seed,
                           std::ostream& notices);

}  // namespace shardwright
