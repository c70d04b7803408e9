// Dense layers.
#pragma once

#include <optional>
#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// y = x w + b. Parameters `NAME.weight` (in, out) and `NAME.bias`; operators `NAME.matmul` and `NAME.add`.
/// Both start uniform in +-1/sqrt(in), or the weight as `start` says and the bias at 0.
struct Dense {
  struct Options {
    bool bias = true;
    std::optional<Initializer> start = {};
  };
  Dense(const std::string& name, std::int64_t in, std::int64_t out) : Dense(name, in, out, Options{}) {}
  Dense(const std::string& name, std::int64_t in, std::int64_t out, Options options);

  /// Shapes: x [..., in] -> [..., out]
  Traced operator()(Traced x) const;

  Operator matmul;
  Operator add;
  Parameter weight;
  Parameter bias;
  bool has_bias;
};

}  // namespace shardwright
