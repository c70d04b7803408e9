// What the user has fixed and what the settings of a search ask for may exclude each other; this says so before
// anything is searched.
#pragma once

#include "shardwright/plan/problem.h"

namespace shardwright {

/// Throws: Error that names the operators which are fixed otherwise than `options` ask for.
void check_no_contradiction(const Problem& problem, const SearchOptions& options);

}  // namespace shardwright
