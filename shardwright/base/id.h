// Typed indices: a NodeId cannot be used where a ValueId is wanted. Graphs refer by index, never by pointer.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace shardwright {

template <class Tag>
struct Id {
  int index = -1;

  bool is_valid() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};

}  // namespace shardwright

template <class Tag>
struct std::hash<shardwright::Id<Tag>> {
  std::size_t operator()(shardwright::Id<Tag> id) const { return std::hash<int>()(id.index); }
};
