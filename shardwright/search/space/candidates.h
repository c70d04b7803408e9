// The strategies that an operator may have: every search chooses among these.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/search/planning/problem.h"

namespace shardwright::space {

struct Listed {
  bool all_orders = false;         // of one dim's axes: `dp.tp` and `tp.dp`
  int most_axes = Axes::max_size;  // of a mesh of more only the unsplit strategy, and `in_blocks`
  bool in_blocks =
      false;  // those that split at most two loop dims, over the more major and the more minor axes
};

/// As whole strategies are searched: all of up to three axes, and of more those in blocks.
constexpr Listed whole_strategies{.most_axes = 3, .in_blocks = true};

/// Every legal strategy without partial operands on `mesh`, which is that of number `index`; the unsplit one, which is on
/// mesh 0, first.
std::vector<Strategy> strategies_on(const Rule& rule, const Mesh& mesh, int index, const Listed& listed = {});

/// Of the forward operator `id` on the meshes of `fixed`, where it has one choice if it is fixed: every legal strategy
/// without partial operands that the mode and `options` allow, the unsplit one first.
/// Cost: exponential in the number of axes that are listed.
std::vector<Strategy> candidates_of(const Problem& problem, const FixedChoices& fixed, NodeId id,
                                    const Rule& rule, const SearchOptions& options,
                                    const Listed& listed = {});

/// What --approximate leaves of `strategies`: by `cost`, one for each, every n-th of them from the cheapest on, so that
/// 1 / approximation are left; and before these the first, the unsplit one, which is always legal.
std::vector<Strategy> approximated(const std::vector<Strategy>& strategies, std::span<const double> cost,
                                   double approximation);

/// What `search` finds among some strategies of each operator, if `options` approximates; nothing, as these may have none that
/// agree with their neighbours': then among all of them, which is told. Without approximation it must find something.
SearchResult among_some_or_all(
    const SearchOptions& options,
    const std::function<std::optional<SearchResult>(const SearchOptions&)>& search);

/// Whether the mode lets `id` have `strategy`: data parallelism splits no parameter; fully_use_devices wants all or nothing,
/// aligned slices that what is split is a multiple of their size.
bool is_allowed(const Problem& problem, const FixedChoices& fixed, NodeId id, const Rule& rule,
                const Strategy& strategy, const SearchOptions& options);

}  // namespace shardwright::space
