#include "shardwright/exchange/torch/transfers.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/graph/op.h"
#include "shardwright/simulate/work_json.h"

namespace shardwright::torch {
namespace {

Json mesh_of(const Mesh& mesh) {
  Json out = Json::array();
  for (const Axis& axis : mesh.axes) out.push_back({axis.name, axis.size});
  return out;
}

Json axis_names(const Axes& axes, const Mesh& mesh) {
  Json out = Json::array();
  for (int a : axes) out.push_back(mesh.axes[at(a)].name);
  return out;
}

/// Where elements are in a tensor: how many, how far apart, from which on; null: they are all of it.
Json region(const Shape& extent, const Shape& strides, std::int64_t offset, const Shape& whole) {
  if (extent == whole) return {};
  return {extent, strides, offset};
}

}  // namespace

Transfers::Transfers(const Pipeline& pipeline, const std::vector<RankStep>& steps,
                     const std::vector<std::vector<std::string>>& names)
    : pipeline_(pipeline), names_(names) {
  std::map<Key, std::vector<OnRank>> all;
  for (const RankStep& step : steps)
    for (const PreparedTransfer& t : step.transfers) {
      if (t.crossing < 0 && !is_collective(t.kind())) continue;
      const Key key = t.crossing >= 0 ? Key{-1, t.crossing} : Key{t.from_stage, t.node.index};
      all[key].push_back({step.rank, &t});
    }
  for (const auto& [key, on_ranks] : all) {
    numbers_[key] = static_cast<int>(list_.size());
    list_.push_back(spec_of(on_ranks));
    list_.back().update(told(*on_ranks.front().transfer, list_.back()["kind"] != "pieces"));
  }
}

bool Transfers::is_even(int stage, const PreparedTransfer& transfer) const {
  const Graph& graph = pipeline_.stage(stage).graph;
  return std::ranges::all_of(transfer.parts, [&](const Part& part) {
    return std::ranges::all_of(std::array{part.from, part.to}, [&](ValueId v) {
      const Layout layout = layout_of(graph.value(v));
      return shardwright::is_even(layout, graph.meshes[at(layout.mesh)], graph.value(v).global_type().shape);
    });
  });
}

/// What a trace says of it. Pieces are no collective's time.
Json Transfers::told(const PreparedTransfer& transfer, bool is_collective) const {
  if (transfer.crossing >= 0) {
    const Part& part = transfer.parts.front();
    const ValueId crosses = part.to.is_valid() ? part.to : part.from;
    const int stage = part.to.is_valid() ? transfer.to_stage : transfer.from_stage;
    return {{"name", pipeline_.stage(stage).graph.value(crosses).name}};
  }
  const Graph& graph = pipeline_.stage(transfer.from_stage).graph;
  Json nodes = Json::array(), operators = Json::array();
  for (int n = 0; n < static_cast<int>(transfer.parts.size()); ++n) {
    const NodeId node{transfer.node.index + n};
    nodes.push_back(graph.name_of(node));
    operators.push_back(graph.node(node).op->name);
  }
  Json out{{"name", fmt::format("{} {}", operators[0].get<std::string>(), nodes[0].get<std::string>())},
           {"phase", name_of(graph.node(transfer.node).phase)},
           {"nodes", std::move(nodes)},
           {"operators", std::move(operators)}};
  if (is_collective) out["work"] = work_json(graph, transfer);
  return out;
}

Json Transfers::spec_of(const std::vector<OnRank>& all) const {
  const PreparedTransfer& first = *all.front().transfer;
  if (first.crossing >= 0) return pieces(all);
  const bool even = is_even(first.from_stage, first);
  switch (first.kind()) {
    case StepKind::all_reduce: return collective(first.from_stage, first, true);
    case StepKind::reduce_scatter: return collective(first.from_stage, first, even);
    case StepKind::all_gather:
    case StepKind::all_to_all:
      if (even) return collective(first.from_stage, first, true);
      break;
    default: break;
  }
  return pieces(all);
}

/// A reduce_scatter to unequal parts reduces all, of which each rank keeps its box.
Json Transfers::collective(int stage, const PreparedTransfer& first, bool is_even) const {
  const Graph& graph = pipeline_.stage(stage).graph;
  const Step step = step_of(graph, graph.node(first.node));
  const Mesh& mesh = graph.meshes[at(std::max(step.from.mesh, step.to.mesh))];
  Json out{{"kind", is_even ? std::string(name_of(step.kind)) : "reduce_and_cut"},
           {"stage", stage},
           {"mesh", mesh_of(mesh)},
           {"over", axis_names(step.axes, mesh)}};
  if (step.reduction == Reduction::max) out["reduce"] = "max";
  if (is_once(first)) out["once"] = true;
  for (const Part& part : first.parts) {
    const Step of = step_of(graph, graph.node(graph.value(part.to).producer));
    Json one = Json::array({names_[at(stage)][at(part.from.index)]});
    if (of.kind != StepKind::all_reduce) one.push_back(of.dim_from);
    if (of.kind == StepKind::all_to_all) one.push_back(of.dim_to);
    one.push_back(names_[at(stage)][at(part.to.index)]);
    out["parts"].push_back(std::move(one));
    if (is_even) continue;
    Json boxes = Json::array();
    for (int r = 0; r < mesh.size(); ++r) {
      const Box from = box_of(graph, part.from, r), to = box_of(graph, part.to, r);
      Json box = Json::array();
      for (std::size_t d = 0; d < to.extent.size(); ++d)
        box.push_back({to.offset[d] - from.offset[d], to.offset[d] - from.offset[d] + to.extent[d]});
      boxes.push_back(std::move(box));
    }
    out["boxes"].push_back(std::move(boxes));
  }
  return out;
}

/// Not of a micro-batch.
bool Transfers::is_once(const PreparedTransfer& transfer) const {
  if (transfer.crossing >= 0)
    return pipeline_.crossings[at(transfer.crossing)].time != CrossingTime::micro_batch;
  return pipeline_.stage(transfer.from_stage).graph.node(transfer.node).phase == Phase::update;
}

Json Transfers::pieces(const std::vector<OnRank>& all) const {
  const PreparedTransfer& first = *all.front().transfer;
  std::map<int, const PreparedTransfer*> of_rank;
  for (const auto& [rank, transfer] : all) of_rank[rank] = transfer;
  Json out{{"kind", "pieces"}, {"from_stage", first.from_stage}, {"to_stage", first.to_stage}};
  if (is_once(first)) out["once"] = true;
  for (const char* key : {"gives", "takes", "parts", "dtypes", "shapes", "pieces"}) out[key] = Json::array();
  for (const auto& [rank, transfer] : all) {
    if (transfer->gives()) out["gives"].push_back(rank);
    if (transfer->takes()) out["takes"].push_back(rank);
  }
  // A rank that only gives does not know what others make of it.
  for (std::size_t p = 0; p < first.parts.size(); ++p) {
    ValueId from, to;
    Json shapes = Json::array(), takers = Json::array();
    for (const auto& [rank, transfer] : all) {
      const Part& part = transfer->parts[p];
      if (part.from.is_valid()) from = part.from;
      if (part.to.is_valid()) to = part.to;
      if (!part.to.is_valid()) continue;
      shapes.push_back({rank, part.transfer->to_shape});
      Json list = Json::array();
      for (const Piece& piece : part.transfer->pieces)
        list.push_back({piece.source,
                        region(piece.extent, piece.from_strides, piece.from_offset,
                               of_rank.at(piece.source)->parts[p].transfer->from_shape),
                        region(piece.extent, piece.to_strides, piece.to_offset, part.transfer->to_shape)});
      takers.push_back({rank, std::move(list)});
    }
    out["parts"].push_back(
        {names_[at(first.from_stage)][at(from.index)], names_[at(first.to_stage)][at(to.index)]});
    out["dtypes"].push_back(short_dtype(first.parts[p].dtype));
    out["shapes"].push_back(std::move(shapes));
    out["pieces"].push_back(std::move(takers));
  }
  return out;
}

}  // namespace shardwright::torch
