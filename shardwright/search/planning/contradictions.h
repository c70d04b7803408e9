// What the user has fixed and what the settings of a search ask for may exclude each other; this says so before
// anything is searched.
#pragma once

#include <functional>
#include <optional>

#include "shardwright/search/planning/problem.h"

namespace shardwright {

/// Throws: Error that names the operators which are fixed otherwise than `options` ask for.
void check_no_contradiction(const Problem& problem, const SearchOptions& options);

/// The strategy of a node, or nullptr where there is none yet.
using StrategyOf = std::function<const Strategy*(NodeId)>;

/// A point-wise operator's result that a reader wants otherwise than it lies.
struct Unfollowed {
  NodeId reader;
  ValueId value;
  Layout has;
  Layout wants;
};
/// The first one under these strategies, or nothing: then elementwise_follow holds.
std::optional<Unfollowed> unfollowed(const Problem& problem, const StrategyOf& strategy_of);

}  // namespace shardwright
