// A strategy file as what is asked of planning: the way of `--strategy FILE` and of Python's `strategy=`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/strategy_file.h"
#include "shardwright/graph/graph.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// Of annotations that come beside a strategy file: `--annotate a.json`, and what they say.
struct Annotated {
  std::string whose;
  Constraints said;
};

/// What is said beside a strategy file, as its door calls it.
struct BesideStrategies {
  std::vector<Given> whole = {};  // each says how everything is split
  std::string search = {};        // empty: none is named
  std::string search_called;      // `--search`
};
/// Throws: Error if that leaves nothing to a strategy file called `called`.
void check_takes_strategies(const std::string& called, const BesideStrategies& beside);
/// Throws: Error if `parallel` leaves nothing to what fixes single operators and is called `called`.
void check_splits(Parallel parallel, const std::string& called, const std::string& parallel_called);

/// What `file` fixes, beside what `request` has of `annotated`; errors call the file `called`, and begin with `path` later.
/// Throws: Error where the two put an operator into different stages.
void add_strategies(const StrategyFile& file, const std::string& path, const std::string& called,
                    const std::optional<Annotated>& annotated, PlanRequest& request);

struct FittingStrategies {
  Constraints said;
  std::vector<std::string> not_heeded;  // a line each
};

/// `said`, with patterns written out, without what `file` says of states; what else of it is not heeded is told.
/// Throws: Error unless the file is of `network`, for as many devices as `request`, and agrees with `annotated`.
FittingStrategies fitting_strategies(const StrategyFile& file, const std::string& path, const Graph& network,
                                     const PlanRequest& request, const std::optional<Annotated>& annotated,
                                     Constraints said);

}  // namespace shardwright
