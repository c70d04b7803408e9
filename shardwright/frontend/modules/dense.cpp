#include "shardwright/frontend/modules/dense.h"

#include <cmath>

namespace shardwright {

namespace {

Initializer fan_in(std::int64_t in) { return uniform(1 / std::sqrt(static_cast<double>(in))); }

}  // namespace

Dense::Dense(const std::string& name, std::int64_t in, std::int64_t out, Options options)
    : matmul(shardwright::matmul(name + ".matmul")),
      add(shardwright::add(name + ".add")),
      weight{name + ".weight", {in, out}, options.start.value_or(fan_in(in))},
      bias{name + ".bias", {out}, options.start ? zeros() : fan_in(in)},
      has_bias(options.bias) {}

Traced Dense::operator()(Traced x) const {
  const Traced y = matmul(x, weight);
  return has_bias ? add(y, bias) : y;
}

}  // namespace shardwright
