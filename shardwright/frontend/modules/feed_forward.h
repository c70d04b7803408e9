// The two-layer networks between the attentions of a transformer.
#pragma once

#include <optional>
#include <string>

#include "shardwright/frontend/modules/dense.h"

namespace shardwright {

/// y = down(activation(up(x))). Dense layers NAME.up and NAME.down; the activation is an operator with its own name.
/// Shapes: [..., width] -> the same
struct PlainFeedForward {
  PlainFeedForward(const std::string& name, std::int64_t width, std::int64_t inner, Operator activation,
                   const Dense::Options& options = {});
  Traced operator()(Traced x) const;

  Dense up;
  Operator activation;
  std::optional<Operator> squared = {};  // of what the activation makes
  Dense down;
  double dropout = 0;  // of what `down` reads
};

/// y = down(silu(gate(x)) up(x)). Dense layers NAME.gate, NAME.up and NAME.down; between them NAME.swiglu. With another
/// activation than silu: that, and NAME.gated.
/// Shapes: [..., width] -> the same
struct GatedFeedForward {
  GatedFeedForward(const std::string& name, std::int64_t width, std::int64_t inner,
                   const Dense::Options& options = {}, std::optional<Operator> activation_of = {});
  Traced operator()(Traced x) const;

  Dense gate;
  Dense up;
  Operator swiglu;
  std::optional<Operator> activation;
  Dense down;
  double dropout = 0;  // of what `down` reads
};

}  // namespace shardwright
