// Which search plans, where nobody names one: auto, or where something is asked that auto has no use for, the one that has.
// Flags, configuration files and C++ all come here.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

struct SearchChoice {
  const Searcher* search = nullptr;
  std::string why;  // nobody named it, and it is not auto
};

/// Throws: Error if `request` names a search that does not exist.
SearchChoice search_for(const PlanRequest& request);

/// The same request of the search that plans where auto, which nobody named, cannot; nothing if that would lose something.
std::optional<PlanRequest> instead_of_auto(const PlanRequest& request);

/// What a search of whole plans may not choose, whoever says it: settings that are not as they would be anyway, too.
Constraints fixed_by(const PlanRequest& request);

/// What is fixed operator by operator, of which a search of whole plans makes nothing: `annotations fix single operators`;
/// empty if nothing is.
std::string_view fixed_singly(const Constraints& constraints);

/// A line that tells of a search that nobody named: `why; search recursive plans instead`.
std::string notice_of(std::string_view why, const Searcher& search);

}  // namespace shardwright
