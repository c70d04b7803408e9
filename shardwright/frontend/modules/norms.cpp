#include "shardwright/frontend/modules/norms.h"

namespace shardwright {

LayerNorm::LayerNorm(const std::string& name, std::int64_t width, double epsilon)
    : norm(layer_norm(name, epsilon)),
      weight{name + ".weight", {width}, ones(), true},
      bias{name + ".bias", {width}, zeros(), true} {}

RmsNorm::RmsNorm(const std::string& name, std::int64_t width, double epsilon)
    : norm(rms_norm(name, epsilon)), weight{name + ".weight", {width}, ones(), true} {}

}  // namespace shardwright
