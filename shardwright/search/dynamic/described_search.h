// Dynamic programming by the described system's costs: `--search dynamic --costs symbolic`.
//
// The same sum of tables as in seconds, so that the same elimination finds its least (space/minimum.h): exact wherever the
// described system's eliminations, merges and contractions go through, and where its triangles and stars approximate, too,
// if they do not meet. Memory is no afterthought: where the least does not fit, Pareto sets of cost and bytes say what does.
#pragma once

#include "shardwright/search/planning/problem.h"

namespace shardwright::dynamic {

/// Throws: Infeasible if a setting has no meaning here.
SearchResult described_plan(const Problem& problem, const SearchOptions& options);

}  // namespace shardwright::dynamic
