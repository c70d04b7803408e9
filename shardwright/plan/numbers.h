// Numbers instead of things that are equal, so that what follows from them is worked out once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "shardwright/base/random.h"
#include "shardwright/layout/layout.h"
#include "shardwright/layout/strategy.h"

namespace shardwright {

/// Numbers of things that are equal: the first gets 0, the next that differs 1, ...
template <class T, class Hash = std::hash<T>>
class Numbers {
 public:
  int of(const T& thing) {
    const auto [it, is_new] = numbers_.try_emplace(thing, static_cast<int>(things_.size()));
    if (is_new) things_.push_back(&it->first);
    return it->second;
  }
  const T& operator[](int n) const { return *things_[static_cast<std::size_t>(n)]; }

 private:
  std::unordered_map<T, int, Hash> numbers_;
  std::vector<const T*> things_;  // keys of a map stay where they are
};

/// Several numbers as one key of a map.
using Key = std::vector<int>;
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = key.size();
    for (int n : key) h = splitmix64(h ^ static_cast<std::uint64_t>(n));
    return h;
  }
};
/// A strategy of a call (graph/calls.h).
struct StrategyKey {
  int call = 0;
  Strategy strategy;
  bool operator==(const StrategyKey&) const = default;
};
struct StrategyKeyHash {
  std::size_t operator()(const StrategyKey& key) const {
    const Strategy& s = key.strategy;
    const std::size_t loops = std::hash<Layout>()(Layout{.dims = s.loops, .mesh = s.mesh});
    return splitmix64(loops ^ std::hash<Layout>()(Layout{.dims = s.linear, .mesh = key.call}));
  }
};

}  // namespace shardwright
