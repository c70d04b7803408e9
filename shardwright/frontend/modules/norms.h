// Norms over the last dim, with the weights that scale and shift what they give.
#pragma once

#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// Parameters `NAME.weight` and `NAME.bias` (width); the operator is called NAME.
/// Shapes: [..., width] -> the same
struct LayerNorm {
  LayerNorm(const std::string& name, std::int64_t width, double epsilon = 1e-5);
  Traced operator()(Traced x) const { return norm(x, weight, bias); }

  Operator norm;
  Parameter weight;
  Parameter bias;
};

/// The same without a mean and without a bias. With `from_one` the weight says how far from 1 the scale is, and starts at 0.
struct RmsNorm {
  RmsNorm(const std::string& name, std::int64_t width, double epsilon = 1e-5, bool from_one = false);
  Traced operator()(Traced x) const;

  Operator norm;
  Parameter weight;
  bool is_from_one;
};

}  // namespace shardwright
