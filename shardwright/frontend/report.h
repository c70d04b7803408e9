// Plans for people: a table that can be argued with.
#pragma once

#include <string>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/table.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// One line: what recompute saves and what it costs, against the same plan without it; nothing if there is none.
std::string recompute_text(const Graph& graph, const Plan& plan, const Estimate& estimate);

/// What a step learns from: the tokens of its sequences or else its samples, on all devices; 0 where there are no data.
struct BatchSize {
  std::int64_t count = 0;
  std::string unit;  // `tokens`
};
/// Of a step of `plan`; `graph` is the train step of one micro-batch, which has so many tokens.
BatchSize batch_size_of(const Graph& graph, const Plan& plan, std::int64_t tokens = 0);

/// The plan of a step, stage by stage, and what it takes; `graph` is the train step of one micro-batch.
std::string step_table(const Graph& graph, const Plan& plan, const Estimate& estimate,
                       const BatchSize& batch);

/// The table's rows: what each is called, and which planned operators it stands for.
std::vector<FoldedName> table_rows(const StagePlan& stage, const std::vector<OperatorShare>& shares);

/// What made the search choose; neighbours that cause no communication are followed: `follows relu1; to norm: ...`.
std::string compact_reason(const PlannedOperator& op);

/// `12.3%`
std::string percent_text(double part, double whole);

std::string strategy_text(const PlannedOperator& op);

}  // namespace shardwright
