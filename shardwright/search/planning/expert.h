// A configuration in the words of the field, whole or in part: `dp=4,tp=2,pp=2,micro_batch=1,global_batch=32,zero=1`.
//
// --set says all of it: each word but dp, tp and sequence_parallel stands for a setting (cli/expert_flags.h), and these
// three are the degrees by which operators are split (annotations/degrees.h). --fix says what a search of whole plans may
// not choose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/annotations/degrees.h"
#include "shardwright/base/given.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/plan/schedule.h"

namespace shardwright {

/// What is left out is empty.
struct Expert {
  std::optional<int> data, tensor, stages;
  std::optional<bool> sequence;
  std::optional<std::int64_t> micro_batch;   // samples of each of dp in a micro-batch
  std::optional<std::int64_t> global_batch;  // samples of a step
  std::optional<int> micro_batches;          // of a step; no word says it
  std::optional<int> zero;                   // level of optimizer parallelism
  std::optional<RecomputeMode> recompute;
  std::optional<Schedule> schedule;

  /// 1 of what is left out.
  Degrees degrees() const { return {data.value_or(1), tensor.value_or(1), sequence.value_or(false)}; }
  int stage_count() const { return stages.value_or(1); }
  bool fixes_split() const { return data || tensor || sequence || micro_batch; }
  bool fixes_settings() const { return stages || micro_batches || zero || recompute || schedule; }
  std::int64_t devices() const { return std::int64_t{data.value_or(1)} * tensor.value_or(1) * stage_count(); }
};

/// Reads what `--set` and `--fix` take. Throws: Error on other keys, with near names, and on values that are none.
Expert parse_expert(const Given& given);

/// Of a mode under the degrees: as Megatron does it, what is selected and split by the sequence is kept so, and gathered
/// again in the backward.
RecomputeOptions recompute_options(RecomputeMode mode, bool sequence);

}  // namespace shardwright
