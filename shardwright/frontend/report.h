// Plans for people: a table that can be argued with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/assumed.h"
#include "shardwright/frontend/table.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// What a step learns from: the tokens of its sequences or else its samples, on all devices; 0 where there are no data.
struct BatchSize {
  std::int64_t count = 0;
  std::string unit;  // `tokens`
  std::int64_t samples = 0;
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
  double seconds = 0;  // that the shares are of
  std::int64_t bytes = 0;
};
/// What the share of time is called that no operator takes.
constexpr std::string_view beside_operators = "beside operators";

/// Rows that differ in numbers of layers only, and in shares a little, have the same: they are told in the first stage that
/// has them.
std::string key_of(const ReportRow& row, bool is_kind = false);

struct StageReport {
  std::string heading;  // of the only one nothing
  std::vector<std::string> meshes;
  std::vector<ReportRow> rows;  // of one device nothing
  std::vector<ReportRow>
      kinds;  // the same, one row for all that are of a kind and split alike; what takes nothing in one
  std::string beside;                 // share of the time beside operators, if it is worth a row
  std::vector<OperatorShare> shares;  // by planned operator, what the rows are made of; of one device nothing
  bool splits_nothing = false;
};
/// The plan of a step, stage by stage, and what it takes, as lines of text and as pages say it.
struct StepReport {
  std::string heading;
  std::vector<std::string> summary;  // one line each: what was asked, what was chosen, what a step takes
  std::vector<StageReport> stages;
};
/// `graph` is the train step of one micro-batch.
StepReport step_report(const Graph& graph, const Plan& plan, const Estimate& estimate, const BatchSize& batch,
                       const Assumed& assumed = {});

/// Its summary alone.
std::vector<std::string> summary_of(const Graph& graph, const Plan& plan, const Estimate& estimate,
                                    const BatchSize& batch, const Assumed& assumed = {});

struct ReportStyle {
  bool is_wide = false;     // a row for each operator, however many there are
  std::size_t columns = 0;  // longer lines of tables are cut; 0: none is
};
/// The summary, then tables. Stages that are alike are told once; where a stage has more rows than fit a screen, those of
/// a kind are one.
std::string to_text(const StepReport& report, const ReportStyle& style = {});

/// The table's rows: what each is called, and which planned operators it stands for.
std::vector<FoldedName> table_rows(const StagePlan& stage, const std::vector<OperatorShare>& shares);

/// What made the search choose; neighbours that cause no communication are followed: `follows relu1; to norm: ...`.
std::string compact_reason(const PlannedOperator& op);

/// What is done in a second: `28751`, `8.3`.
std::string rate_text(double rate);
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
