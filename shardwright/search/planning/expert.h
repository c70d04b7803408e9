// An expert's configuration in the words of the field: `dp=4,tp=2,pp=2,micro_batch=1,global_batch=32,zero=1`.
//
// It says nothing that settings do not say: each word but dp, tp and sequence_parallel stands for one
// (cli/expert_flags.h), and these three are the degrees by which operators are split (annotations/degrees.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/annotations/degrees.h"
#include "shardwright/base/given.h"

namespace shardwright {

struct Expert {
  Degrees degrees;
  int stages = 1;
  std::optional<std::int64_t> micro_batch;   // samples of each of dp in a micro-batch
  std::optional<std::int64_t> global_batch;  // samples of a step
  std::optional<std::string> zero, recompute, schedule;

  std::int64_t devices() const { return std::int64_t{degrees.data} * degrees.tensor * stages; }
};

/// Reads what `--set` takes. Throws: Error on other keys, with near names, and on values that are none.
Expert parse_expert(const Given& given);

}  // namespace shardwright
