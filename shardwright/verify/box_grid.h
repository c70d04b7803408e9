// Boxes that fill a box as the cells of a grid, found without looking at pairs.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "shardwright/layout/transfer.h"

namespace shardwright {

/// The box that the cells fill, each element in one cell; cells that are the same count once, empty ones not at all.
/// Nothing if they are no grid: then they may fill a box all the same.
inline std::optional<Box> filled_by(std::vector<Box> cells) {
  std::erase_if(cells, is_empty);
  if (cells.empty()) return std::nullopt;
  const auto key = [](const Box& b) { return std::tie(b.offset, b.extent); };
  std::ranges::sort(cells, {}, key);
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  Box out = cells.front();
  std::size_t count = 1;
  for (std::size_t d = 0; d < out.offset.size(); ++d) {
    std::map<std::int64_t, std::int64_t> ends;  // by where a cell begins
    for (const Box& b : cells) {
      const std::int64_t end = b.offset[d] + b.extent[d];
      if (ends.try_emplace(b.offset[d], end).first->second != end) return std::nullopt;
    }
    std::int64_t next = ends.begin()->first;
    for (const auto& [begin, end] : ends)
      if (std::exchange(next, end) != begin) return std::nullopt;
    count *= ends.size();
    out.offset[d] = ends.begin()->first;
    out.extent[d] = next - out.offset[d];
  }
  return count == cells.size() ? std::optional(out) : std::nullopt;
}

}  // namespace shardwright
