// Explanations for people: every candidate of an operator in a table, and in a sentence why the plan has the one it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/table.h"

namespace shardwright {

/// The candidates, fastest first, the plan's marked, and why it is that.
std::string explanation_table(const Explanation& explanation, const Explainer& explainer);

/// What decided, in a few clauses: against the next best and against data parallelism, part by part.
std::vector<std::string> why(const Explanation& explanation, const Plan& plan);

/// The operators in which most time or memory goes, and what the fastest other strategy would change.
struct Heavy {
  FoldedName row;  // of the plan's table
  double time_share = 0;
  double memory_share = 0;
  Explanation explanation;           // of the one in the middle
  std::optional<std::size_t> other;  // the fastest candidate but the plan's
};
std::vector<Heavy> heaviest(Explainer& explainer, const std::vector<OperatorShare>& shares);
std::string heaviest_table(const std::vector<Heavy>& heavy);

}  // namespace shardwright
