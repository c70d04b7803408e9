// Mixtures of experts: of several gated networks each element is given to those that a router chooses, and their results are
// added, weighed by how sure it is.
//
//   p = softmax(router(x));  chosen: the `chosen` largest p;  y = sum over chosen e of p[e] expert_e(x)
//
// With `scaled` the weights of each element are divided by their sum: as if softmax were of the chosen ones. Experts compute what
// they were chosen for, however much that is; with `capacity` at most that many times their even share of a step's elements, in the
// order of these, and the rest counts 0. Their weights stand side by side in one tensor, whose first dim can be split.
//
// Losses beside the network's (Trace::add_loss) teach the router: with f the share of choices that expert e got, and P its mean p,
//
//   balance_loss * experts * sum over e of f[e] P[e]          z_loss * mean over elements of log(sum of e^scores)^2
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
        0;                 // inner features of NAME.shared, a gated network that all elements have; 0: none
    bool is_gated = true;  // each expert: a(gate^T x) (up^T x), else a(up^T x)
    std::string activation = "silu";
    double capacity = 0;  // 0: nothing is left out
    double balance_loss = 0, z_loss = 0;
  };
  MixtureOfExperts(const std::string& name, std::int64_t width, std::int64_t inner, const Options& options);
  Traced operator()(Traced x) const;

  std::string name;
  Options options;
  Dense router;
  Parameter gate, up, down, correction;
  std::optional<GatedFeedForward> shared;

 private:
  /// Which experts are chosen, and what each of them counts; [..., chosen] each.
  struct Choice {
    Traced ids, weights;
  };
  Choice choice_of(Traced scores) const;
  /// What is looked at to choose, where whole groups are left out. Shapes: [..., experts] -> the same
  Traced in_chosen_groups(Traced p) const;
  Traced kept_ids(Traced ids) const;
  void add_balance_loss(Traced p, Traced ids) const;
  void add_z_loss(Traced scores) const;
};

}  // namespace shardwright
