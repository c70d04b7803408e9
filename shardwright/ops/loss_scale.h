// The calls of loss scaling (ops/loss_scale.cpp).
#pragma once

#include <string>
#include <vector>

#include "shardwright/ops/calls.h"

namespace shardwright {

/// 1 where x is a finite number, else 0, as f32.
inline ValueId is_finite(Builder& builder, ValueId x, std::string_view name) {
  return builder.call("is_finite", {cast_to(builder, x, DType::f32)}, {}, name);
}

/// The scale and the count of good steps behind one that was good (1) or not (0); growing by `factor` behind `interval`
/// good steps, never if that is 0.
inline std::vector<ValueId> next_loss_scale(Builder& builder, ValueId scale, ValueId good_steps,
                                            ValueId is_good, double factor, std::int64_t interval,
                                            std::string_view name) {
  return builder.call_all(find_op("next_loss_scale"), {scale, good_steps, is_good},
                          {{"factor", factor}, {"interval", interval}}, name);
}

}  // namespace shardwright
