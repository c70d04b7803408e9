#include "shardwright/frontend/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"

namespace shardwright {
namespace {

/// `other` as seen from `name`: without the leading parts that both have, perhaps with other numbers.
std::string relative(std::string_view other, std::string_view name) {
  for (;;) {
    const std::size_t dot = other.find('.'), same = name.find('.');
    if (dot == other.npos || same == name.npos) break;
    if (without_numbers(std::string(other.substr(0, dot))) !=
        without_numbers(std::string(name.substr(0, same))))
      break;
    other.remove_prefix(dot + 1);
    name.remove_prefix(same + 1);
  }
  return std::string(other);
}

/// Operators with equal keys differ in numbers of their names only.
std::string key_of(const PlannedOperator& op, const OperatorShare& share) {
  std::string out =
      fmt::format("{}|{}|{}|{}|{}|{}", op.kind, strategy_text(op), op.mesh, op.out, op.is_fixed, share.call);
  for (const Reason::Neighbour& n : op.reason.neighbours)
    if (!n.moves.empty())
      out +=
          fmt::format("|{}{}{}", static_cast<int>(n.kind), without_numbers(n.name), without_numbers(n.moves));
  for (const std::string& note : op.reason.notes) out += "|" + without_numbers(note);
  return out;
}

/// Of one kind in one phase, whatever their axes.
std::vector<CollectiveTraffic> merged(const std::vector<CollectiveTraffic>& traffic) {
  std::vector<CollectiveTraffic> out;
  for (const CollectiveTraffic& t : traffic) {
    const auto same = std::ranges::find_if(
        out, [&](const CollectiveTraffic& other) { return other.kind == t.kind && other.phase == t.phase; });
    if (same == out.end()) {
      out.push_back(t);
      continue;
    }
    same->count += t.count;
    same->bytes += t.bytes;
    if (same->axes.find(t.axes) == std::string::npos) same->axes += "." + t.axes;
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &CollectiveTraffic::bytes);
  return out;
}

/// The largest two, and how many more there are.
std::string collectives_text(const OperatorCost& cost) {
  const std::vector<CollectiveTraffic> all = merged(cost.traffic);
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, all.size()); ++i)
    out += fmt::format("{}{}{} {}{} {}", out.empty() ? "" : ", ",
                       all[i].count > 1 ? fmt::format("{} ", all[i].count) : "", name_of(all[i].kind),
                       bytes_text(all[i].bytes), all[i].axes.empty() ? "" : " over " + all[i].axes,
                       name_of(all[i].phase));
  if (all.size() > 2) out += fmt::format(", {} more", all.size() - 2);
  return out;
}

/// What operators take, of all that the stage takes.
struct Shares {
  const StagePlan& plan;
  const std::vector<OperatorShare>& shares;
  double seconds = 0, bytes = 0;  // all of the stage

  std::pair<double, std::int64_t> sums(const std::vector<std::size_t>& members) const {
    std::pair<double, std::int64_t> out;
    for (std::size_t i : members) {
      out.first += shares[i].cost.seconds();
      out.second += shares[i].cost.bytes();
    }
    return out;
  }

  /// Of time and of memory.
  std::pair<std::string, std::string> percents(const std::vector<std::size_t>& members) const {
    const auto [row_seconds, row_bytes] = sums(members);
    return {percent_text(row_seconds, seconds), percent_text(static_cast<double>(row_bytes), bytes)};
  }

  /// Of these operators, which stand in one row.
  ReportRow row(std::string name, const std::vector<std::size_t>& members) const {
    auto [time, memory] = percents(members);
    const auto [row_seconds, row_bytes] = sums(members);
    const std::size_t typical = members[members.size() / 2];
    const PlannedOperator& op = plan.operators[typical];
    return {.name = std::move(name),
            .strategy = strategy_text(op),
            .parts = integers_text(op.in),
            .time = std::move(time),
            .memory = std::move(memory),
            .collectives = collectives_text(shares[typical].cost),
            .reason = compact_reason(op),
            .seconds = row_seconds,
            .bytes = row_bytes};
  }

  bool take_nothing(const std::vector<std::size_t>& members) const {
    auto [time, memory] = percents(members);
    return takes_nothing({.time = std::move(time), .memory = std::move(memory)});
  }

  /// Of all that take nothing; if there are none, nothing.
  std::optional<ReportRow> others(const std::vector<std::size_t>& idle) const {
    if (idle.empty()) return std::nullopt;
    ReportRow out = row(fmt::format("others x{}", idle.size()), idle);
    out.strategy = out.parts = out.collectives = out.reason = "";
    return out;
  }
};

/// Rows of what is of a kind and split alike, whatever it is called; what takes nothing is the last.
std::vector<ReportRow> kinds_of(const Shares& of, const std::vector<FoldedName>& rows) {
  struct Kind {
    std::vector<std::size_t> members;
    std::vector<std::string> names;  // of rows
  };
  std::map<std::string, std::size_t> place;
  std::vector<Kind> kinds;
  for (const FoldedName& row : rows) {
    const PlannedOperator& op = of.plan.operators[row.members.front()];
    const auto [it, is_new] = place.emplace(
        fmt::format("{}|{}|{}|{}", op.kind, strategy_text(op), op.mesh, op.is_fixed), kinds.size());
    if (is_new) kinds.emplace_back();
    Kind& kind = kinds[it->second];
    kind.members.insert(kind.members.end(), row.members.begin(), row.members.end());
    kind.names.push_back(row.name);
  }
  std::vector<ReportRow> out;
  std::vector<std::size_t> idle;
  for (Kind& kind : kinds) {
    if (of.take_nothing(kind.members)) {
      idle.insert(idle.end(), kind.members.begin(), kind.members.end());
      continue;
    }
    if (kind.names.size() == 1) {
      out.push_back(of.row(kind.names.front(), kind.members));
      continue;
    }
    out.push_back(
        of.row(fmt::format("{} x{}", of.plan.operators[kind.members.front()].kind, kind.members.size()),
               kind.members));
    OperatorCost all;
    for (std::size_t i : kind.members) {
      const auto& traffic = of.shares[i].cost.traffic;
      all.traffic.insert(all.traffic.end(), traffic.begin(), traffic.end());
      if (of.plan.operators[i].in != of.plan.operators[kind.members.front()].in) out.back().parts = "";
    }
    out.back().collectives = collectives_text(all);  // of all together
    out.back().reason = fmt::format("{} to {}", kind.names.front(), kind.names.back());
  }
  if (auto others = of.others(idle)) out.push_back(*std::move(others));
  return out;
}

/// Adds rows of a stage whose operators take `taken`.
void add_rows(StageReport& to, const StagePlan& plan, const std::vector<OperatorShare>& shares,
              const StageSeconds& taken) {
  Shares of{.plan = plan, .shares = shares, .seconds = taken.others.all()};
  for (const OperatorShare& s : shares) {
    of.seconds += s.cost.seconds();
    of.bytes += static_cast<double>(s.cost.bytes());
  }
  const std::vector<FoldedName> rows = table_rows(plan, shares);
  std::vector<std::size_t> idle;
  for (const FoldedName& row : rows) {
    to.rows.push_back(of.row(row.name, row.members));
    if (takes_nothing(to.rows.back())) idle.insert(idle.end(), row.members.begin(), row.members.end());
  }
  to.others = of.others(idle);
  to.kinds = kinds_of(of, rows);
  constexpr double worth_a_row = 5e-4;
  if (taken.others.all() > worth_a_row * of.seconds) to.beside = percent_text(taken.others.all(), of.seconds);
}

}  // namespace

bool takes_nothing(const ReportRow& row) {
  return row.time == "0.0%" && (row.memory == "0.0%" || row.memory == "-");
}

std::string words_of(MemoryKind kind) {
  std::string out(name_of(kind));
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string words_of(const Recompute& recompute) {
  std::vector<std::string> what;
  if (recompute.mode != RecomputeMode::none) what.emplace_back(name_of(recompute.mode));
  for (const RecomputedModule& m : recompute.modules) what.push_back((m.is_on ? "" : "not ") + m.module);
  std::string out;
  for (const FoldedName& name : folded(what)) out += (out.empty() ? "" : ", ") + name.name;
  return out;
}

std::string strategy_text(const PlannedOperator& op) {
  std::string out;
  for (const auto& [loop, axes] : op.strategy)
    out += fmt::format("{}{}: {}{}", out.empty() ? "" : ", ", loop, join(axes, "."),
                       op.cuts.contains(loop) ? to_text(op.cuts.at(loop)) : "");
  return "{" + out + "}";
}

std::string percent_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * part / whole) : "-";
}

std::vector<FoldedName> table_rows(const StagePlan& plan, const std::vector<OperatorShare>& shares) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < plan.operators.size(); ++i)
    alike[key_of(plan.operators[i], shares[i])].push_back(i);
  std::vector<FoldedName> out;
  for (const auto& [key, members] : alike) {
    std::vector<std::string> names;
    for (std::size_t i : members) names.push_back(plan.operators[i].name);
    for (FoldedName& row : folded(names)) {
      for (std::size_t& m : row.members) m = members[m];
      out.push_back(std::move(row));
    }
  }
  std::ranges::sort(out, {}, [](const FoldedName& row) { return row.members.front(); });
  return out;
}

std::string compact_reason(const PlannedOperator& op) {
  using Neighbour = Reason::Neighbour;
  std::vector<std::string> out;
  const auto say = [&](std::string_view what, auto is_meant) {
    std::vector<std::string> names;
    for (const Neighbour& n : op.reason.neighbours) {
      std::string name = relative(n.name, op.name);
      if (is_meant(n) && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    if (!names.empty()) out.push_back(fmt::format("{} {}", what, join(names, ", ")));
  };
  say("follows", [](const Neighbour& n) { return n.moves.empty(); });
  say("redistributes", [](const Neighbour& n) { return !n.moves.empty() && n.kind != Neighbour::to; });
  say("redistributed for", [](const Neighbour& n) { return !n.moves.empty() && n.kind == Neighbour::to; });
  if (!op.reason.notes.empty()) out.push_back(join(op.reason.notes, ", "));
  if (!op.out.empty()) out.push_back("result " + op.out);
  return join(out, "; ");
}

BatchSize batch_size_of(const Graph& graph, const Plan& plan, std::int64_t tokens) {
  const int micro_batches = plan.settings.pipelining.batch_parts();
  BatchSize out;
  for (const Node& node : graph.nodes) {
    const Shape& shape = graph.value(node.results.front()).type.shape;
    if (out.samples == 0 && node.op->kind == OpKind::input && !shape.empty())
      out = {shape.front() * micro_batches, "samples", shape.front() * micro_batches};
  }
  if (tokens > 0) out = {tokens * micro_batches, "tokens", out.samples};
  return out;
}

namespace {

/// A row per operator, or for all of a kind in repeated layers: how it is split, its share of time and memory, the
/// collectives that it causes, and why. Shares are per planned operator.
StageReport stage_report(const StagePlan& stage, Explainer explainer, const StageSeconds& taken) {
  StageReport out;
  for (const Mesh& mesh : stage.meshes)
    if (mesh.axis_count() > 0) out.meshes.push_back(to_text(mesh));
  out.shares = explainer.shares(taken);
  if (stage.devices() == 1) return out;
  add_rows(out, stage, out.shares, taken);
  out.splits_nothing =
      std::ranges::all_of(stage.operators, [](const PlannedOperator& op) { return op.strategy.empty(); });
  return out;
}

}  // namespace

StepReport step_report(const Graph& graph, const Plan& plan, const Evaluation& evaluation,
                       const BatchSize& batch, const FormatsOf& formats, const Assumed& assumed) {
  const Pipelining& p = plan.settings.pipelining;
  const Estimate& e = evaluation.estimate;
  const bool is_whole = plan.stages.size() == 1;
  StepReport out;
  out.heading = fmt::format("plan of {} on {} device{} of {}, {}{}", plan.model, plan.devices(),
                            plan.devices() == 1 ? "" : "s", plan.cluster.name, plan.parallel,
                            plan.search.empty() ? "" : ", search " + plan.search);
  PlannedStages parts = apply(plan, graph);
  std::vector<int> begins{0};  // of the devices of each stage
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const int first = begins[static_cast<std::size_t>(p.stage_of(static_cast<int>(s)))];
    begins.push_back(first + stage.devices());
    out.stages.push_back(stage_report(stage, Explainer(std::move(parts.stages[s]), plan, s), e.operators[s]));
    if (!is_whole)
      out.stages.back().heading = fmt::format("stage {} on devices {}-{}: {} operator{}, {} to {}", s, first,
                                              first + stage.devices() - 1, stage.operators.size(),
                                              stage.operators.size() == 1 ? "" : "s",
                                              stage.operators.front().name, stage.operators.back().name);
  }
  out.assumed = assumed;
  out.recompute = recompute_line(graph, plan, e, formats);
  out.offload = offload_line(graph, plan, e, formats);
  out.summary = summary_of(graph, plan, evaluation, batch, out);
  return out;
}

}  // namespace shardwright
