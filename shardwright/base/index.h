// Counts and indices are signed here, those of the standard library are not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardwright {

/// A signed index, not negative, as one into a container.
constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace shardwright
