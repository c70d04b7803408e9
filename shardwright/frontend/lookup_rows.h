// How many rows the tables have that a network's integers are looked up in: what ids may be drawn where there are no data.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// Of each input whose elements are indices the rows of the smallest table that they are looked up in, by the input's
/// name. Elements are followed through operators that only move them. `graph` is not split.
std::map<std::string, std::int64_t> lookup_rows(const Graph& graph);

}  // namespace shardwright
