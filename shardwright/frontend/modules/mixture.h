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
#include "shardwright/frontend/modules/feed_forward.h"

namespace shardwright {

/// Dense layer NAME.router; parameters NAME.gate, NAME.up (experts, width, inner) and NAME.down (experts, inner, width).
/// Shapes: [batch, sequence, width] -> the same
struct MixtureOfExperts {
  struct Options {
    std::int64_t experts = 8, chosen = 2;
    bool scaled = true;
    std::optional<Initializer> start = {};
    std::int64_t inner = 0;  // of each expert; 0: as the network's
    bool by_sigmoid =
        false;  // p = sigmoid(router(x)); what chooses is p + NAME.router.correction, which is frozen
    std::int64_t groups =
        1;  // of experts, of which the `chosen_groups` with the largest two together take part
    std::int64_t chosen_groups = 1;
    double factor = 1;  // of the weights in the end
    std::int64_t shared =
        0;  // inner features of NAME.shared, a gated network that all elements have; 0: none
  };
  MixtureOfExperts(const std::string& name, std::int64_t width, std::int64_t inner, const Options& options);
  Traced operator()(Traced x) const;

  /// Of scores [tokens, experts] what each expert counts for each token, in the same shape.
  Traced weights_of(Traced scores) const;
  /// What is looked at to choose, where whole groups are left out. Shapes: [tokens, experts] -> the same
  Traced in_chosen_groups(Traced p) const;

  std::string name;
  Options options;
  Dense router;
  Parameter gate, up, down, correction;
  std::optional<GatedFeedForward> shared;
};

}  // namespace shardwright
