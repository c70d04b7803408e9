// Sums and maxima of several buffers, element by element, in the order of the buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardwright/base/dtype.h"
#include "shardwright/layout/layout.h"

namespace shardwright {

/// to[i] = reduction over q of from[q][i], for `count` elements. 16-bit types are summed in float and rounded
/// once. `to` may be one of `from`, else they do not overlap.
using Reduce = void (*)(std::span<const std::byte* const> from, std::byte* to, std::int64_t count);

Reduce reduce_of(DType dtype, Reduction reduction);

}  // namespace shardwright
