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

struct LayerCell {
  std::string name;
  std::vector<std::size_t> members;  // planned operators
};

std::vector<LayerCell> layers_of(const StagePlan& stage) {
  std::vector<LayerCell> out;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < stage.operators.size(); ++i) {
    std::string name = layer_of(stage.operators[i].name);
    const auto [it, is_new] = place.try_emplace(name, out.size());
    if (is_new) out.push_back({std::move(name), {}});
    out[it->second].members.push_back(i);
  }
  return out;
}

/// How cells are split, each way told once.
class Splits {
 public:
  std::size_t of(const StagePlan& stage, const LayerCell& cell) {
    Json operators = Json::array();
    for (const std::size_t i : cell.members) {
      const PlannedOperator& op = stage.operators[i];
      const std::string rest =
          op.name.size() > cell.name.size() ? op.name.substr(cell.name.size() + 1) : op.name;
      operators.push_back({rest, op.kind, strategy_text(op)});
    }
    Json split{{"label", label_of(stage, cell)}, {"operators", std::move(operators)}};
    const auto [it, is_new] = known_.try_emplace(split.dump(), all_.size());
    if (is_new) all_.push_back(std::move(split));
    return it->second;
  }
  Json all() && { return std::move(all_); }

 private:
  /// The axes over which any of it is split: `dp 8 · tp 4`.
  static std::string label_of(const StagePlan& stage, const LayerCell& cell) {
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

  std::map<std::string, std::size_t> known_;
  Json all_ = Json::array();
};

/// More cells than a screen has room for: neighbours that are split alike become one.
constexpr std::size_t most_cells = 400;

void join_cells(Json& cells) {
  Json out = Json::array();
  for (const Json& cell : cells) {
    if (!out.empty() && out.back()["split"] == cell["split"]) {
      Json& last = out.back();
      last["to"] = cell["name"];
      last["count"] = last["count"].get<int>() + 1;
      last["seconds"] = last["seconds"].get<double>() + cell["seconds"].get<double>();
      last["bytes"] = last["bytes"].get<std::int64_t>() + cell["bytes"].get<std::int64_t>();
      continue;
    }
    out.push_back(cell);
  }
  cells = std::move(out);
}

Json cells_of(const StagePlan& stage, const StageReport& told, Splits& splits) {
  Json out = Json::array();
  for (const LayerCell& cell : layers_of(stage)) {
    double seconds = 0;
    std::int64_t bytes = 0;
    for (const std::size_t i : cell.members) {
      if (told.shares.empty()) break;
      seconds += told.shares[i].cost.seconds();
      bytes += told.shares[i].cost.bytes();
    }
    out.push_back({{"name", cell.name},
                   {"count", 1},
                   {"split", splits.of(stage, cell)},
                   {"seconds", seconds},
                   {"bytes", bytes}});
  }
  return out;
}

}  // namespace

Json strip_json(const PageContent& content) {
  Splits splits;
  Json stages = Json::array();
  std::size_t cells = 0;
  for (std::size_t s = 0; s < content.plan.stages.size(); ++s) {
    const int first = content.pipeline.first_rank(static_cast<int>(s));
    const int count = content.pipeline.stage(static_cast<int>(s)).rank_count();
    Json stage{{"stage", s},
               {"group", content.pipeline.pipelining.stage_of(static_cast<int>(s))},
               {"name", part_name(content.pipeline, s)},
               {"first", first},
               {"count", count},
               {"devices", range_text(first, count)},
               {"hosts", hosts_text(content.plan.cluster, first, count)},
               {"cells", cells_of(content.plan.stages[s], content.report.stages[s], splits)}};
    cells += stage["cells"].size();
    stages.push_back(std::move(stage));
  }
  if (cells > most_cells)
    for (Json& stage : stages) join_cells(stage["cells"]);
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
    out["peak"] = {{"seconds", static_cast<double>(most->time) * 1e-9}, {"bytes", total_of(most->bytes)}};
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
