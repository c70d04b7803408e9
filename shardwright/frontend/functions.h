// Functions of traced values that are several operators' work: each adds a few nodes, and what they need of rules,
// gradients and splits is theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/frontend/trace.h"

namespace shardwright {

/// The values, of one type, side by side along a new dim `dim` of the result.
Traced stack(const std::vector<Traced>& values, std::int64_t dim);

struct ReducedDims {
  std::vector<std::int64_t> dims;  // empty = all
  bool keep = false;               // leave them as dims of size 1
};

/// Mean of (x - mean)^2 over the dims; `ddof` is taken off the count that it is divided by.
Traced variance(Traced x, const ReducedDims& over, std::int64_t ddof = 0);

/// x / sqrt(max(sum of x^2 over `dim`, epsilon)), in the type of activations, computed in that of losses; its operators
/// are called `name` and `name.PART`.
Traced l2_normalize(Traced x, std::int64_t dim = -1, double epsilon = 1e-12, const std::string& name = "l2");

/// What a batch norm by given statistics reads: values [channels].
struct ChannelNorm {
  Traced gamma, beta, mean, variance;
  double epsilon = 1e-5;
};
/// gamma (x - mean) / sqrt(variance + epsilon) + beta for each channel (dim 1): batch norm as it infers.
/// It is computed in the type of `norm`, which x may be shorter than.
Traced batch_norm_by(Traced x, const ChannelNorm& norm, std::string_view name = "");

/// Dropout for training: `name` tells this one's mask from others', `seed` one run's from another's. The mask is
/// another in every step: it depends on the count of steps done (autodiff/train_step.h).
Traced dropout(Traced x, const std::string& name, double rate, std::int64_t seed = 0);
/// The same, or x where the rate is 0.
Traced dropped(Traced x, const std::string& name, double rate);

}  // namespace shardwright
