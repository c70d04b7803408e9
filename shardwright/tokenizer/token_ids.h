// Tokens as numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace shardwright {

using TokenIds = std::vector<std::int32_t>;

}  // namespace shardwright
