// Networks that nobody has chosen: stacks of layers drawn from a seed.
#pragma once

#include <cstdint>

#include "shardwright/frontend/model.h"

namespace shardwright {

/// Images through convolutions, norms, activations and a pool; then their pixels as a sequence through dense layers,
/// norms, activations and attention; then ten classes. Depth, widths and the order of layers are the seed's.
Model drawn_network(std::uint64_t seed, std::int64_t batch);

}  // namespace shardwright
