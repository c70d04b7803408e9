#include "shardwright/frontend/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::string strategy_text(const PlannedOperator& op) {
  std::string out;
  for (const auto& [loop, axes] : op.strategy)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", loop, join(axes, "."));
  return "{" + out + "}";
}

std::string integers_text(const PlannedOperator& op) {
  std::vector<TensorSplit> splits;
  for (const auto& parts : op.in) {
    TensorSplit s;
    s.parts = parts;
    splits.push_back(std::move(s));
  }
  return to_text(splits);
}

using Row = std::array<std::string, 4>;

std::string aligned(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> width{};
  for (const Row& row : rows)
    for (std::size_t c = 0; c + 1 < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const Row& row : rows)
    out += fmt::format("  {:{}}  {:{}}  {:{}}  {}\n", row[0], width[0], row[1], width[1], row[2], width[2],
                       row[3]);
  return out;
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1000000) return fmt::format("{:.1f} KB", b / 1e3);
  if (bytes < 1000000000) return fmt::format("{:.1f} MB", b / 1e6);
  return fmt::format("{:.2f} GB", b / 1e9);
}

std::string plan_table(const Plan& plan, const Estimate& e) {
  std::string out =
      fmt::format("plan of {} on {} device{}, {}{}\n", plan.model, plan.devices, plan.devices == 1 ? "" : "s",
                  plan.parallel, plan.search.empty() ? "" : ", search " + plan.search);
  for (const Mesh& mesh : plan.meshes)
    if (mesh.axis_count() > 0) out += to_text(mesh) + "\n";
  std::vector<Row> rows{{"operator", "strategy", "parts of inputs", "why"}};
  for (const PlannedOperator& op : plan.operators)
    rows.push_back({op.name, strategy_text(op), integers_text(op),
                    op.reason + (op.out.empty() ? "" : "; result " + op.out)});
  if (plan.devices > 1) out += aligned(rows);
  const bool is_split = std::any_of(plan.operators.begin(), plan.operators.end(),
                                    [](const PlannedOperator& op) { return !op.strategy.empty(); });
  if (plan.devices > 1 && !is_split) out += "nothing is split: every device does the whole work\n";
  if (!plan.compared.empty()) out += plan.compared + "\n";
  std::string collectives;
  for (const auto& [kind, count] : e.collectives)
    collectives += fmt::format("{}{} {}", collectives.empty() ? "" : ", ", count, kind);
  out += fmt::format("per device: {} parameters, {} optimizer state, {} in all\n",
                     bytes_text(e.parameter_bytes), bytes_text(e.state_bytes), bytes_text(e.arena_bytes));
  out += fmt::format("per step: {} received by a device{}{}\n", bytes_text(e.bytes_communicated),
                     collectives.empty() ? "" : " in ", collectives);
  return out;
}

}  // namespace shardwright
