// What a search has left out for its memory by figures alone, and what is still not known of it once binding.h has looked.
#pragma once

#include <algorithm>
#include <vector>

#include "shardwright/plan/tried.h"

namespace shardwright {

/// Of a step of it, as far as figures say.
inline double least_of(const Tried& t) { return std::max(t.seconds, t.least_seconds); }

/// By figures it does not fit, and its steps may be shorter than `seconds`. Where layers are computed again memory decides how
/// many: without a limit that is the same with none.
inline bool may_bind(const Tried& t, double seconds) {
  constexpr double nearness = 0.97;  // programs may take so much less than is forecast
  return t.fate == Fate::misfit && t.by != KnownBy::program && nearness * least_of(t) < seconds &&
         !t.structure.recompute.value_or(Again{}).layers;
}

/// So many are left.
inline std::ptrdiff_t unpriced(const std::vector<Tried>& tried, double seconds) {
  return std::ranges::count_if(tried, [&](const Tried& t) { return may_bind(t, seconds); });
}

}  // namespace shardwright
