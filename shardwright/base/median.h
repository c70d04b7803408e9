// The middle of some numbers: of an even count the upper one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardwright {

/// `values` must not be empty.
inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace shardwright
