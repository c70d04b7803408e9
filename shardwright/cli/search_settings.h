// The flags that say how a search works and what it must keep to: the part of PLANNING that becomes SearchOptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/cli/verb.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

std::vector<Flag> search_flags();

/// The names of those that only a search heeds.
std::vector<std::string> setting_flags();

/// What the flags say to `search`, or, in modes that do not search, how much memory there is.
/// Throws: Error on a value that is none, and on a setting that `search` or `mode` has no use for.
SearchOptions search_options_of(const Arguments& arguments, const Searcher& search, Parallel mode);

/// How much of each device's memory a plan may use.
struct MemoryCap {
  std::string flag;  // that says so
  std::int64_t bytes = 0;
};

/// The smaller of --memory-cap and --device-memory, or nothing without them.
/// Throws: Error on a value that is no number of bytes.
std::optional<MemoryCap> memory_cap_of(const Arguments& arguments);

}  // namespace shardwright
