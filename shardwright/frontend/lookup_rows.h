// How many rows the tables have that a network's integers are looked up in: what ids may be drawn where there are no data.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct LookedUp {
  std::int64_t rows = 0;  // of the smallest table; where they are hashed, any will do
  bool in_bags = false;   // an id below 0 is none
  bool is_hashed = false;
  bool operator==(const LookedUp&) const = default;
};

/// Of each input whose elements are indices what they are looked up in, by the input's name. Elements are followed through
/// operators that only move them. `graph` is not split.
std::map<std::string, LookedUp> lookup_rows(const Graph& graph);

}  // namespace shardwright
