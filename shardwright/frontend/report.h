// Plans for people: a table that can be argued with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/assumed.h"
#include "shardwright/frontend/table.h"
#include "shardwright/passes/formats.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/simulate/evaluate.h"

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
/// Both shares say that it takes nothing.
bool takes_nothing(const ReportRow& row);
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
  std::optional<ReportRow> others;    // one row for all that take nothing, if any do
  std::string beside;                 // share of the time beside operators, if it is worth a row
  std::vector<OperatorShare> shares;  // by planned operator, what the rows are made of
  bool splits_nothing = false;
};
/// A line above the tables.
struct SummaryLine {
  std::string text;
  std::string brief = {};  // in fewer words, where a terminal would wrap it; empty: there are none
};
/// The plan of a step, stage by stage, and what it takes, as lines of text and as pages say it.
struct StepReport {
  std::string heading;
  std::vector<SummaryLine> summary;  // what was asked, what was chosen, what a step takes
  std::vector<StageReport> stages;
  Assumed assumed = {};
  SummaryLine offload = {};    // likewise; empty: nothing is on the host
  SummaryLine recompute = {};  // what it costs and saves; empty: nothing is computed again
};
/// `graph` is the train step of one micro-batch; `formats` are of the device that it was planned for.
StepReport step_report(const Graph& graph, const Plan& plan, const Evaluation& evaluation,
                       const BatchSize& batch, const FormatsOf& formats, const Assumed& assumed = {});

/// Its summary alone, which says what `report` knows already.
std::vector<SummaryLine> summary_of(const Graph& graph, const Plan& plan, const Evaluation& evaluation,
                                    const BatchSize& batch, const StepReport& report);
/// What recompute saves and what it costs, against the same plan without it; nothing if there is none.
SummaryLine recompute_line(const Graph& graph, const Plan& plan, const Estimate& estimate,
                           const FormatsOf& formats);
/// What lies on the host, what goes there and comes from there, against the same plan without it; likewise.
SummaryLine offload_line(const Graph& graph, const Plan& plan, const Estimate& e, const FormatsOf& formats);

struct ReportStyle {
  bool is_wide = false;     // a row for each operator, however many there are
  std::size_t columns = 0;  // of a terminal, whose screen it fits: lines of tables are cut; 0: there is none
};
/// The summary, then tables. Stages that are alike are told once; where a stage has more rows than fit a screen, those of
/// a kind are one. On a terminal what takes nothing is one row, and long lines of the summary are brief.
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
