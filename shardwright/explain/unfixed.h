// What it costs that something of a plan was fixed: the same search once more, where nothing is.
#pragma once

#include <optional>

#include "shardwright/explain/binding.h"

namespace shardwright {

/// Nothing where nothing was fixed, or single operators, parameters or stages by name, which are no choice of a search;
/// where the search's time is over; or where it finds no plan. Cost: a search.
std::optional<Unfixed> unfixed_of(const Judged& judged, const StepOf& step);

}  // namespace shardwright
