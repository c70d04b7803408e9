#include "shardwright/frontend/modules/feed_forward.h"

#include "shardwright/frontend/functions.h"

namespace shardwright {

PlainFeedForward::PlainFeedForward(const std::string& name, std::int64_t width, std::int64_t inner,
                                   Operator activation_of, const Dense::Options& options)
    : up(name + ".up", width, inner, options),
      activation(std::move(activation_of)),
      down(name + ".down", inner, width, options) {}

Traced PlainFeedForward::operator()(Traced x) const {
  const Traced active = activation(up(x));
  const Traced inner = squared ? (*squared)(active) : active;
  return down(dropped(inner, activation.name() + ".dropout", dropout));
}

GatedFeedForward::GatedFeedForward(const std::string& name, std::int64_t width, std::int64_t inner,
                                   const Dense::Options& options, std::optional<Operator> activation_of)
    : gate(name + ".gate", width, inner, options),
      up(name + ".up", width, inner, options),
      swiglu(activation_of ? multiply(name + ".gated") : shardwright::swiglu(name + ".swiglu")),
      activation(std::move(activation_of)),
      down(name + ".down", inner, width, options) {}

Traced GatedFeedForward::operator()(Traced x) const {
  const Traced gates = gate(x);
  const Traced inner = activation ? swiglu((*activation)(gates), up(x)) : swiglu(gates, up(x));
  return down(dropped(inner, swiglu.name() + ".dropout", dropout));
}

}  // namespace shardwright
