// Plans for people: a table that can be argued with.
#pragma once

#include <string>

#include "shardwright/frontend/table.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/simulate/explain.h"

namespace shardwright {

/// A row per operator, or for all of a kind in repeated layers: how it is split, its share of time and memory, the
/// collectives that it causes, and why; then what a step takes. Shares are per planned operator.
std::string plan_table(const Plan& plan, const Estimate& estimate, const std::vector<OperatorShare>& shares);

/// One line: what recompute saves and what it costs, against the same plan without it; nothing if there is none.
std::string recompute_text(const Graph& graph, const Plan& plan, const Estimate& estimate);

/// The plan of a step, stage by stage, and what it takes; `graph` is the train step of one micro-batch.
std::string step_table(const Graph& graph, const Plan& plan, const Estimate& estimate);

/// The table's rows: what each is called, and which planned operators it stands for.
std::vector<FoldedName> table_rows(const Plan& plan, const std::vector<OperatorShare>& shares);

/// What made the search choose; neighbours that cause no communication are followed: `follows relu1; to norm: ...`.
std::string compact_reason(const PlannedOperator& op);

/// `12.3%`
std::string percent_text(double part, double whole);

std::string strategy_text(const PlannedOperator& op);

}  // namespace shardwright
