// Plans for people: a table that can be argued with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/table.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// What a step learns from: the tokens of its sequences or else its samples, on all devices; 0 where there are no data.
struct BatchSize {
  std::int64_t count = 0;
  std::string unit;  // `tokens`
};
/// Of a step of `plan`; `graph` is the train step of one micro-batch, which has so many tokens.
BatchSize batch_size_of(const Graph& graph, const Plan& plan, std::int64_t tokens = 0);

/// An operator, or all of a kind in repeated layers.
struct ReportRow {
  std::string name;
  std::string strategy;
  std::string parts;   // of its inputs
  std::string time;    // share of the stage's, `12.3%`
  std::string memory;  // likewise
  std::string collectives;
  std::string reason;
};
/// What the share of time is called that no operator takes.
constexpr std::string_view beside_operators = "beside operators";

struct StageReport {
  std::string heading;  // of the only one nothing
  std::vector<std::string> meshes;
  std::vector<ReportRow> rows;  // of one device nothing
  std::string beside;           // share of the time beside operators, if it is worth a row
  bool splits_nothing = false;
};
/// The plan of a step, stage by stage, and what it takes, as lines of text and as pages say it.
struct StepReport {
  std::string heading;
  std::vector<StageReport> stages;
  std::vector<std::string> remarks;  // one line each
};
/// `graph` is the train step of one micro-batch.
StepReport step_report(const Graph& graph, const Plan& plan, const Estimate& estimate,
                       const BatchSize& batch);
/// As a table; reasons are cut where a line ends.
std::string to_text(const StepReport& report);

/// The table's rows: what each is called, and which planned operators it stands for.
std::vector<FoldedName> table_rows(const StagePlan& stage, const std::vector<OperatorShare>& shares);

/// What made the search choose; neighbours that cause no communication are followed: `follows relu1; to norm: ...`.
std::string compact_reason(const PlannedOperator& op);

/// `throughput: 438695 tokens a second, 26.7% of the devices' peak (MFU)`; nothing of a step that takes no time.
std::string throughput_text(const Estimate& estimate, const BatchSize& batch);

/// `optimizer state`
std::string words_of(MemoryKind kind);

/// `selected, layers.0-3`; nothing where all is kept.
std::string words_of(const Recompute& recompute);

/// `12.3%`
std::string percent_text(double part, double whole);

std::string strategy_text(const PlannedOperator& op);

}  // namespace shardwright
