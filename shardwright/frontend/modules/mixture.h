// Mixtures of experts: of several gated networks each element is given to those that a router chooses, and their results are
// added, weighed by how sure it is.
//
//   p = softmax(router(x));  chosen: the `chosen` largest p;  w = p where chosen, else 0;  y = sum over e of w[e] expert_e(x)
//
// With `scaled` the weights of each element are divided by their sum. Every expert computes all elements, so that the choice
// moves nothing between devices; their weights stand side by side in one tensor, whose first dim can be split.
#pragma once

#include <string>

#include "shardwright/frontend/modules/dense.h"

namespace shardwright {

/// Dense layer NAME.router; parameters NAME.gate, NAME.up (experts, width, inner) and NAME.down (experts, inner, width).
/// Shapes: [batch, sequence, width] -> the same
struct MixtureOfExperts {
  struct Options {
    std::int64_t experts = 8, chosen = 2;
    bool scaled = true;
    std::optional<Initializer> start = {};
  };
  MixtureOfExperts(const std::string& name, std::int64_t width, std::int64_t inner, const Options& options);
  Traced operator()(Traced x) const;

  /// Of scores [tokens, experts] what each expert counts for each token, in the same shape.
  Traced weights_of(Traced scores) const;

  std::string name;
  Options options;
  Dense router;
  Parameter gate, up, down;
};

}  // namespace shardwright
