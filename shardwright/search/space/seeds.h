// Plans that people know, for searches to start from, or to hold their own against: nothing split, and products with
// parameters split column, then row, so that what lies between stays sharded and a single reduction follows (Megatron-LM,
// Shoeybi et al. 2019), with the batch over what is left.
#pragma once

#include <functional>
#include <vector>

#include "shardwright/search/planning/problem.h"

namespace shardwright::space {

/// Nothing is fixed. Whole data (full_batch) say how they are read, not how to compute.
bool is_free(const Problem& problem);

/// Every operator on every device.
SearchResult whole_plan(const Problem& problem);

/// For each way to share the devices between the batch (`dp`) and parameters (`tp`, of more than one): these strategies of the
/// products, on such a mesh. Without those that no product takes.
std::vector<FixedChoices> column_row_seeds(const Problem& problem, const SearchOptions& options);

/// `found`, or the plan that people know whose program is better: `spread` makes one of a seed. Where something is fixed, all
/// is as it was found; of large networks, whose programs take long to make, the first `most_of_large` seeds are tried.
SearchResult held_against_known(const Problem& problem, const SearchOptions& options, SearchResult found,
                                std::size_t most_of_large,
                                const std::function<SearchResult(const FixedChoices& seed)>& spread);

}  // namespace shardwright::space
