// Offsets of buffers of one program.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/lower/program.h"

namespace shardwright {

/// Places `buffers`, of a program of so many nodes, from `begin` on: those in slots side by side, as they are alive between forward
/// and backward; behind them each other one, the largest first, at the lowest offset that is free over its life. Returns where they
/// end. Throws: Error beyond 2^61 bytes.
std::int64_t place_buffers(std::vector<Buffer*> buffers, std::size_t nodes, std::int64_t begin);

}  // namespace shardwright
