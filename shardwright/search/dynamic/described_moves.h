// What it costs the described system to change how a tensor lies (facts.md 2): counts of elements, read off the greedy
// sequence of slices and gathers that it inserts.
//
// A dim is cut along spans of ranks. The spans of both layouts are refined until two that overlap are one; a dim that
// several spans cut stands as several dims in a row, dims of size 1 are left out. Then, pass by pass over all dims: what is
// whole and should be cut is sliced; where its span still cuts another dim, that one is gathered first; spans that the target
// does not have are gathered.
#pragma once

#include <cstdint>
#include <vector>

#include "shardwright/layout/layout.h"

namespace shardwright::dynamic {

/// Ranks whose number differs by `stride`, `size` of them.
struct RankSpan {
  std::int64_t stride = 1, size = 1;
  auto operator<=>(const RankSpan&) const = default;
};

/// A layout without names of axes, so that those on different meshes can be told from one another.
struct Spread {
  std::vector<std::vector<RankSpan>> dims;  // major to minor, neighbours that make one span joined
  std::vector<std::int64_t> cuts;           // strides at which ranks are counted apart, ascending
  auto operator<=>(const Spread&) const = default;
};

/// `used`: axes that the operator counts ranks along, beside those of the layout.
Spread spread_of(const Layout& layout, const Mesh& mesh, const Axes& used);

struct MovedElements {
  double forward = 0, backward = 0;  // that a device sends, of the value and of its gradient
  double computation = 0;            // that it touches
};

/// From one layout to another of a tensor of `shape`, without an exchange of parts between all (all_to_all).
MovedElements moved_elements(const Spread& from, const Spread& to, const Shape& shape);

}  // namespace shardwright::dynamic
