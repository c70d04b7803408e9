// Runs of IEEE half precision to floats and back, by the machine's own instructions where it has them.
#pragma once

#include <cstdint>

#include "shardwright/base/dtype.h"

namespace shardwright {

/// y[i] = x[i] for i < n; nothing overlaps. As the conversions of F16, element by element.
void convert(const F16* x, float* y, std::int64_t n);
void convert(const float* x, F16* y, std::int64_t n);

}  // namespace shardwright
