#include "shardwright/frontend/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/simulate/evaluate.h"

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

/// Adds rows of a stage whose operators take `taken`.
void add_rows(StageReport& to, const StagePlan& plan, const std::vector<OperatorShare>& shares,
              const StageSeconds& taken) {
  double seconds = taken.others.all(), bytes = 0;
  for (const OperatorShare& s : shares) {
    seconds += s.cost.seconds();
    bytes += static_cast<double>(s.cost.bytes());
  }
  for (const FoldedName& row : table_rows(plan, shares)) {
    double row_seconds = 0, row_bytes = 0;
    for (std::size_t i : row.members) {
      row_seconds += shares[i].cost.seconds();
      row_bytes += static_cast<double>(shares[i].cost.bytes());
    }
    const std::size_t typical = row.members[row.members.size() / 2];
    const PlannedOperator& op = plan.operators[typical];
    to.rows.push_back({.name = row.name,
                       .strategy = strategy_text(op),
                       .parts = integers_text(op.in),
                       .time = percent_text(row_seconds, seconds),
                       .memory = percent_text(row_bytes, bytes),
                       .collectives = collectives_text(shares[typical].cost),
                       .reason = compact_reason(op)});
  }
  constexpr double worth_a_row = 5e-4;
  if (taken.others.all() > worth_a_row * seconds) to.beside = percent_text(taken.others.all(), seconds);
}

/// Collectives and reason, as much of the reason as fits beside columns `width` wide; at least its beginning.
std::string remark_text(const ReportRow& row, std::size_t width) {
  constexpr std::size_t line = 120, least = 32;
  const std::size_t used = width + row.collectives.size() + 2;
  const std::size_t room = std::max(least, line - std::min(line, used));
  return row.collectives + (row.collectives.empty() || row.reason.empty() ? "" : "; ") +
         (row.reason.size() <= room ? row.reason : row.reason.substr(0, room - 3) + "...");
}

std::string table_of(const StageReport& stage) {
  Rows lines{{"operator", "strategy", "parts of inputs", "time", "memory"}};
  for (const ReportRow& r : stage.rows) lines.push_back({r.name, r.strategy, r.parts, r.time, r.memory});
  const std::size_t width = width_of(lines);
  lines[0].emplace_back("collectives; why");
  for (std::size_t r = 0; r < stage.rows.size(); ++r)
    lines[r + 1].push_back(remark_text(stage.rows[r], width));
  if (!stage.beside.empty()) lines.push_back({std::string(beside_operators), "", "", stage.beside, ""});
  return aligned(lines, {.begin = 3, .end = 5});
}

std::string memory_text(const Estimate& e) {
  std::string out = "per device:";
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out += fmt::format(" {} {},", bytes_text(e.memory.bytes[k]), words_of(static_cast<MemoryKind>(k)));
  return out + fmt::format(" {} in all", bytes_text(e.arena_bytes));
}

std::string time_text(const Estimate& e) {
  std::string out = fmt::format("per step: {}: {} compute", seconds_text(e.step_seconds()),
                                seconds_text(e.compute_seconds));
  const double beside = e.communication_seconds - e.exposed_communication_seconds;
  if (e.recompute_seconds > 0) out += fmt::format(" ({} of it recompute)", seconds_text(e.recompute_seconds));
  if (e.communication_seconds > 0)
    out += fmt::format(", {} communication", seconds_text(e.exposed_communication_seconds));
  if (beside > 1e-9) out += fmt::format(" and {} more beside compute", seconds_text(beside));
  if (e.bubble_seconds > 0) out += fmt::format(", {} bubble", seconds_text(e.bubble_seconds));
  std::string collectives;
  for (const auto& [kind, count] : e.collectives)
    collectives += fmt::format("{}{} {}", collectives.empty() ? "" : ", ", count, kind);
  return out + fmt::format("; {} received by a device{}{}", bytes_text(e.bytes_communicated),
                           collectives.empty() ? "" : " in ", collectives);
}

}  // namespace

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

std::string throughput_text(const Estimate& e, const BatchSize& batch) {
  if (e.step_seconds() <= 0) return "";
  const double rate = static_cast<double>(batch.count) / e.step_seconds();
  return fmt::format(
      "throughput: {}{} of the devices' peak (MFU)",
      batch.count > 0 ? fmt::format("{:.{}f} {} a second, ", rate, rate < 100 ? 1 : 0, batch.unit) : "",
      percent_text(e.mfu(), 1));
}

std::string strategy_text(const PlannedOperator& op) {
  std::string out;
  for (const auto& [loop, axes] : op.strategy)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", loop, join(axes, "."));
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
  if (tokens > 0) return {tokens * plan.settings.pipelining.micro_batches, "tokens"};
  for (const Node& node : graph.nodes) {
    const Shape& shape = graph.value(node.results.front()).type.shape;
    if (node.op->kind == OpKind::input && !shape.empty())
      return {shape.front() * plan.settings.pipelining.micro_batches, "samples"};
  }
  return {};
}

namespace {

/// `2 stages, 4 micro-batches, 1f1b`
std::string pipelining_text(const Pipelining& p) {
  if (p.stages == 1) return fmt::format("{} micro-batches, whose gradients are added up", p.micro_batches);
  return fmt::format("{} stages, {} micro-batch{}, {}", p.stages, p.micro_batches,
                     p.micro_batches == 1 ? "" : "es", name_of(p.schedule));
}

/// What recompute saves and what it costs, against the same plan without it; nothing if there is none.
std::string recompute_text(const Graph& graph, const Plan& plan, const Estimate& e) {
  if (!plan.settings.recompute.is_on()) return "";
  Plan other = plan;
  other.settings.recompute = {};
  const Estimate without =
      evaluate(compile_pipeline(graph, other, {.formats = default_devices().formats, .verifies = false}),
               plan.cluster, {.framework = e.framework})
          .estimate;
  return fmt::format(
      "recompute {}: {} activations instead of {}, {} in all instead of {}; {} per step instead of {}",
      words_of(plan.settings.recompute), bytes_text(e.memory.of(MemoryKind::activations)),
      bytes_text(without.memory.of(MemoryKind::activations)), bytes_text(e.arena_bytes),
      bytes_text(without.arena_bytes), seconds_text(e.step_seconds()), seconds_text(without.step_seconds()));
}

/// A row per operator, or for all of a kind in repeated layers: how it is split, its share of time and memory, the
/// collectives that it causes, and why. Shares are per planned operator.
StageReport stage_report(const StagePlan& stage, Explainer explainer, const StageSeconds& taken) {
  StageReport out;
  for (const Mesh& mesh : stage.meshes)
    if (mesh.axis_count() > 0) out.meshes.push_back(to_text(mesh));
  if (stage.devices() == 1) return out;
  add_rows(out, stage, explainer.shares(taken), taken);
  out.splits_nothing =
      std::ranges::all_of(stage.operators, [](const PlannedOperator& op) { return op.strategy.empty(); });
  return out;
}

}  // namespace

StepReport step_report(const Graph& graph, const Plan& plan, const Estimate& e, const BatchSize& batch) {
  const Pipelining& p = plan.settings.pipelining;
  const bool is_whole = plan.stages.size() == 1;
  StepReport out;
  out.heading = fmt::format("plan of {} on {} device{}, {}{}{}", plan.model, plan.devices(),
                            plan.devices() == 1 ? "" : "s", is_whole ? "" : pipelining_text(p) + ", ",
                            plan.parallel, plan.search.empty() ? "" : ", search " + plan.search);
  PlannedStages parts = apply(plan, graph);
  std::vector<int> begins{0};  // of the devices of each stage
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const int first = begins[s % static_cast<std::size_t>(p.stages)];
    begins.push_back(first + stage.devices());
    out.stages.push_back(stage_report(stage, Explainer(std::move(parts.stages[s]), plan, s), e.operators[s]));
    if (!is_whole)
      out.stages.back().heading = fmt::format("stage {} on devices {}-{}: {} operators, {} to {}", s, first,
                                              first + stage.devices() - 1, stage.operators.size(),
                                              stage.operators.front().name, stage.operators.back().name);
  }
  const auto say = [&](const std::string& line) {
    if (!line.empty()) out.remarks.push_back(line);
  };
  say(plan.compared);
  if (!plan.suggestion.empty()) say("suggestion: " + plan.suggestion);
  say(plan.objective);
  say(memory_text(e));
  say(time_text(e));
  say(throughput_text(e, batch));
  if (const auto price = plan.cluster.price_of(e.step_seconds()))
    say(fmt::format("price: {:.4g} a step", *price));
  if (is_whole && p.micro_batches > 1) say(pipelining_text(p));
  say(recompute_text(graph, plan, e));
  return out;
}

std::string to_text(const StepReport& report) {
  std::string out = report.heading + "\n";
  for (const StageReport& stage : report.stages) {
    if (!stage.heading.empty()) out += stage.heading + "\n";
    for (const std::string& mesh : stage.meshes) out += mesh + "\n";
    if (!stage.rows.empty()) out += table_of(stage);
    if (stage.splits_nothing) out += "nothing is split: every device does the whole work\n";
  }
  for (const std::string& line : report.remarks) out += line + "\n";
  return out;
}

}  // namespace shardwright
