// Which node made the first number that is none (NaN or infinity), looked for where the loss that has become one is handed
// out: before anything is updated, so that parameters are those of this step, and while what the backward needs is still
// in memory. What a later value has overwritten cannot be looked at any more.
//
// Infinity below zero counts for none by itself: masks are made of it.
#pragma once

#include <optional>
#include <string>

#include "shardwright/runtime/executor.h"

namespace shardwright {

/// The first of a rank, in the order of its stage's nodes.
struct OddValue {
  enum class From { input, parameter, node, transfer };

  From from = From::node;
  int stage = 0;
  int node = 0;
  int micro_batch = 0;
  std::string
      what;  // `%y = exp`, with those that may have been before it and are overwritten; `parameter 'w'`
};

/// Of a micro-batch whose forward has run; nothing if all that is there is finite.
std::optional<OddValue> first_odd_value(const Executor& executor, Backend& backend, const Pipeline& pipeline,
                                        int stage, int micro_batch);

/// Whether it is NaN, or infinity.
bool is_odd_scalar(const TensorView& view, Backend& backend);

}  // namespace shardwright
