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

/// The same without a mean and without a bias.
struct RmsNorm {
  RmsNorm(const std::string& name, std::int64_t width, double epsilon = 1e-5);
  Traced operator()(Traced x) const { return norm(x, weight); }

  Operator norm;
  Parameter weight;
};

}  // namespace shardwright
