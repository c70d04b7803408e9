// What a plan's page draws, as data for its script: layers and how they are split, the step, and its memory over time.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/timeline.h"
#include "shardwright/simulate/memory_curve.h"

namespace shardwright {
namespace {

/// What stands in one cell: `layers.3` of `layers.3.ffn.up`; what has no number, by its first part.
std::string layer_of(const std::string& name) {
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = name.find('.', begin);
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (to_integer(part) && begin > 0) return name.substr(0, end);
    if (end == name.npos) return name.substr(0, name.find('.'));
    begin = end + 1;
  }
}

/// A layer, or an operator of none; or neighbours of such, from the one called `name` to `last`.
struct Cell {
  std::string name, last;
  int count = 1;
  std::vector<std::size_t> members = {};  // planned operators
  Json split = {};                        // how they are
  double seconds = 0;
  std::int64_t bytes = 0;
};

/// The axes over which any of it is split: `dp 8 · tp 4`.
std::string label_of(const StagePlan& stage, const Cell& cell) {
  std::map<std::string, int> sizes;
  std::vector<std::string> order;
  for (const Mesh& mesh : stage.meshes)
    for (const Axis& axis : mesh.axes)
      for (std::string_view part : split(axis.name, '/')) {
        if (axis.size <= 1 || sizes.contains(std::string(part))) continue;
        sizes[std::string(part)] = part.size() == axis.name.size() ? axis.size : 0;
        order.emplace_back(part);
      }
  std::string out;
  for (const std::string& axis : order) {
    const bool is_used = std::ranges::any_of(cell.members, [&](std::size_t i) {
      return std::ranges::any_of(stage.operators[i].strategy, [&](const auto& loop) {
        return std::ranges::find(loop.second, axis) != loop.second.end();
      });
    });
    if (!is_used) continue;
    out += out.empty() ? axis : " · " + axis;
    if (sizes[axis] > 0) out += fmt::format(" {}", sizes[axis]);
  }
  return out.empty() ? "whole" : out;
}

/// Operators by their names within the layer; what is none of a layer by its kind, so that others of it are split alike.
Json split_of(const StagePlan& stage, const Cell& cell) {
  Json operators = Json::array();
  for (const std::size_t i : cell.members) {
    const PlannedOperator& op = stage.operators[i];
    const bool is_within = op.name.size() > cell.name.size();
    operators.push_back(
        {is_within ? op.name.substr(cell.name.size() + 1) : op.kind, op.kind, strategy_text(op)});
  }
  return {{"label", label_of(stage, cell)}, {"operators", std::move(operators)}};
}

std::vector<Cell> cells_of(const StagePlan& stage, const StageReport& told) {
  std::vector<Cell> out;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < stage.operators.size(); ++i) {
    std::string name = layer_of(stage.operators[i].name);
    const auto [it, is_new] = place.try_emplace(name, out.size());
    if (is_new) out.push_back({.name = name, .last = name});
    Cell& cell = out[it->second];
    cell.members.push_back(i);
    cell.seconds += told.shares[i].cost.seconds();
    cell.bytes += told.shares[i].cost.bytes();
  }
  for (Cell& cell : out) cell.split = split_of(stage, cell);
  return out;
}

// ---- more cells than a screen has room for ----

constexpr std::size_t most_cells = 400;

std::size_t count_of(const std::vector<std::vector<Cell>>& stages) {
  std::size_t out = 0;
  for (const auto& cells : stages) out += cells.size();
  return out;
}

/// Neighbours that `belong` become one. What these are together is told where it is the same of all.
template <class Belong>
void join_cells(std::vector<Cell>& cells, Belong belong) {
  std::vector<Cell> out;
  for (Cell& cell : cells) {
    if (out.empty() || !belong(out.back(), cell)) {
      out.push_back(std::move(cell));
      continue;
    }
    Cell& last = out.back();
    last.last = cell.last;
    last.count += cell.count;
    last.seconds += cell.seconds;
    last.bytes += cell.bytes;
    if (last.split.at("operators") != cell.split.at("operators")) last.split["operators"] = Json::array();
    if (last.split.at("label") != cell.split.at("label")) last.split["label"] = "several";
  }
  cells = std::move(out);
}

/// Split alike in all; then over the same axes; then as many as it takes.
void join_cells(std::vector<std::vector<Cell>>& stages) {
  const auto join = [&](auto belong) {
    if (count_of(stages) <= most_cells) return;
    for (auto& cells : stages) join_cells(cells, belong);
  };
  join([](const Cell& a, const Cell& b) { return a.split == b.split; });
  join([](const Cell& a, const Cell& b) { return a.split.at("label") == b.split.at("label"); });
  for (int most = 2; count_of(stages) > most_cells && count_of(stages) > stages.size(); most *= 2)
    join([most](const Cell& a, const Cell& b) { return a.count + b.count <= most; });
}

/// How cells are split, each way told once.
class Splits {
 public:
  std::size_t of(const Json& split) {
    const auto [it, is_new] = known_.try_emplace(split.dump(), all_.size());
    if (is_new) all_.push_back(split);
    return it->second;
  }
  Json all() && { return std::move(all_); }

 private:
  std::map<std::string, std::size_t> known_;
  Json all_ = Json::array();
};

Json cells_json(const std::vector<Cell>& cells, Splits& splits) {
  Json out = Json::array();
  for (const Cell& cell : cells) {
    out.push_back({{"name", cell.name},
                   {"count", cell.count},
                   {"split", splits.of(cell.split)},
                   {"seconds", cell.seconds},
                   {"bytes", cell.bytes}});
    if (cell.count > 1) out.back()["to"] = cell.last;
  }
  return out;
}

}  // namespace

Json strip_json(const PageContent& content) {
  std::vector<std::vector<Cell>> cells;
  for (std::size_t s = 0; s < content.plan.stages.size(); ++s)
    cells.push_back(cells_of(content.plan.stages[s], content.report.stages[s]));
  join_cells(cells);
  Splits splits;
  Json stages = Json::array();
  for (std::size_t s = 0; s < cells.size(); ++s) {
    const int first = content.pipeline.first_rank(static_cast<int>(s));
    const int count = content.pipeline.stage(static_cast<int>(s)).rank_count();
    stages.push_back({{"stage", s},
                      {"group", content.pipeline.pipelining.stage_of(static_cast<int>(s))},
                      {"name", part_name(content.pipeline, s)},
                      {"first", first},
                      {"count", count},
                      {"devices", range_text(first, count)},
                      {"hosts", hosts_text(content.plan.cluster, first, count)},
                      {"cells", cells_json(cells[s], splits)}});
  }
  return {{"stages", std::move(stages)},
          {"splits", std::move(splits).all()},
          {"per_host", content.plan.cluster.devices_per_node},
          {"devices", content.plan.devices()}};
}

// ---- memory over time ----

namespace {

/// In columns of equal time: of each the moment at which most is there, so that the fullest of all is kept.
std::vector<BytesByKind> columns_of(const std::vector<MemoryMoment>& moments, std::int64_t end,
                                    std::size_t columns) {
  std::vector<BytesByKind> out(columns);
  if (moments.empty()) return out;
  std::size_t next = 0;
  BytesByKind now = moments.front().bytes;
  for (std::size_t c = 0; c < columns; ++c) {
    out[c] = now;
    const std::int64_t until = end * static_cast<std::int64_t>(c + 1) / static_cast<std::int64_t>(columns);
    for (; next < moments.size() && (moments[next].time < until || c + 1 == columns); ++next) {
      now = moments[next].bytes;
      if (total_of(now) > total_of(out[c])) out[c] = now;
    }
  }
  return out;
}

/// Of one stage; what does not change over time is there once.
Json curve_json(const std::vector<MemoryMoment>& moments, std::int64_t end, std::size_t columns,
                std::int64_t unit) {
  const std::vector<BytesByKind> all = columns_of(moments, end, columns);
  Json values = Json::array();
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    Json line = Json::array();
    for (const BytesByKind& column : all) line.push_back((column[k] + unit / 2) / unit);
    const bool is_constant = std::ranges::all_of(line, [&](const Json& v) { return v == line.front(); });
    if (is_constant) line = Json::array({line.front()});
    values.push_back(std::move(line));
  }
  const auto most =
      std::ranges::max_element(moments, {}, [](const MemoryMoment& m) { return total_of(m.bytes); });
  Json out{{"values", std::move(values)}};
  if (most != moments.end())
    out["peak"] = {{"seconds", static_cast<double>(most->time) * 1e-9},
                   {"bytes", total_of(most->bytes)},
                   {"kinds", most->bytes}};
  return out;
}

Json memory_picture(const PageContent& content, const Timeline& timeline, const StepTrace& trace) {
  const Evaluation& evaluation = content.evaluation;
  const auto stages = stages_of(evaluation.estimate);
  constexpr std::size_t all_columns = 2400;
  const std::size_t columns = std::clamp<std::size_t>(all_columns / stages.size(), 60, 600);
  const std::int64_t unit = std::max<std::int64_t>(1, evaluation.estimate.arena_bytes / 20000);
  Json out{{"columns", columns},          {"unit", unit},
           {"cap", evaluation.cap_bytes}, {"kinds", Json::array()},
           {"stages", Json::array()},     {"framework", nullptr}};
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out["kinds"].push_back({name_of(static_cast<MemoryKind>(k)), page_words(static_cast<MemoryKind>(k))});
  if (evaluation.estimate.framework != own_framework) out["framework"] = evaluation.estimate.framework;
  std::vector<int> ranks;
  for (const RankTimeline& r : timeline.ranks) ranks.push_back(r.rank);
  const std::vector<RankStep> steps = steps_of(content.pipeline, ranks);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Json stage = curve_json(memory_by_kind(content.pipeline, trace, steps[s]), timeline.end, columns, unit);
    stage["rank"] = steps[s].rank;
    stage["arena"] = stages[s].arena_bytes;
    out["stages"].push_back(std::move(stage));
  }
  return out;
}

}  // namespace

Json pictures_json(const PageContent& content) {
  constexpr std::size_t most_events = 3'000'000;
  const std::size_t events = event_count(content.pipeline);
  if (events > most_events) return {{"timeline", nullptr}, {"memory", nullptr}, {"events", events}};
  const std::vector<SimulatedRank> ranks = simulated_ranks(content.pipeline, content.plan.cluster);
  const StepTrace trace = trace_of(ranks, content.pipeline);
  const Timeline timeline = timeline_of(content.pipeline, ranks, trace);
  return {{"timeline", json_of(timeline)}, {"memory", memory_picture(content, timeline, trace)}};
}

}  // namespace shardwright
