#include "shardwright/frontend/modules/norms.h"

namespace shardwright {

LayerNorm::LayerNorm(const std::string& name, std::int64_t width, double epsilon)
    : norm(layer_norm(name, epsilon)),
      weight{name + ".weight", {width}, ones(), true},
      bias{name + ".bias", {width}, zeros(), true} {}

RmsNorm::RmsNorm(const std::string& name, std::int64_t width, double epsilon, bool from_one)
    : norm(rms_norm(name, epsilon)),
      weight{name + ".weight", {width}, from_one ? zeros() : ones(), true},
      is_from_one(from_one) {}

Traced RmsNorm::operator()(Traced x) const {
  if (!is_from_one) return norm(x, weight);
  const Traced scale =
      Operator("shift", norm.name() + ".scale").with("value", 1.0)(x.trace->parameter(weight));
  return norm(x, scale);
}

}  // namespace shardwright
