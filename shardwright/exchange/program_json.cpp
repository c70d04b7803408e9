#include "shardwright/exchange/program_json.h"

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/exchange/cuts_json.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/step.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {
namespace {

Json attribute_json(const Attribute& a) {
  return std::visit([](const auto& value) { return Json(value); }, a);
}

Json attributes_json(const Attributes& attributes) {
  Json out = Json::object();
  for (const auto& [name, value] : attributes) out[name] = attribute_json(value);
  return out;
}

Json axes_json(const Axes& axes, const Mesh& mesh) {
  Json out = Json::array();
  for (int a : axes) out.push_back(mesh.axes[at(a)].name);
  return out;
}

Json mesh_json(const Mesh& mesh) {
  Json out = Json::array();
  for (const Axis& axis : mesh.axes) out.push_back({axis.name, axis.size});
  return out;
}

Json layout_json(const Layout& layout, const Graph& graph, const Shape& shape) {
  const Mesh& mesh = graph.meshes[at(layout.mesh)];
  Json out{{"mesh", layout.mesh}, {"dims", Json::array()}};
  for (const Axes& axes : layout.dims) out["dims"].push_back(axes_json(axes, mesh));
  add_cuts(out, layout, mesh, shape);
  if (!layout.sum.empty()) out["sum"] = axes_json(layout.sum, mesh);
  if (!layout.max.empty()) out["max"] = axes_json(layout.max, mesh);
  for (const Window& w : layout.windows)
    out["windows"].push_back(w.loop == 0    ? Json()
                             : w.goes_round ? Json{w.loop, w.num, w.den, w.low, w.high, "round"}
                                            : Json{w.loop, w.num, w.den, w.low, w.high});
  return out;
}

Json value_json(const Graph& graph, const Value& value) {
  return {{"name", value.name},
          {"type", name_of(value.type.dtype)},
          {"shape", value.global_type().shape},
          {"layout", layout_json(layout_of(value), graph, value.global_type().shape)}};
}

Json names_json(const Graph& graph, const std::vector<ValueId>& values) {
  Json out = Json::array();
  for (ValueId v : values) out.push_back(graph.value(v).name);
  return out;
}

Json loops_json(const Graph& graph, const Node& node, const Rule& rule) {
  const Strategy strategy = node.strategy.value_or(whole(rule));
  const Mesh& mesh = graph.meshes[at(strategy.mesh)];
  Json out = Json::object();
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    out[rule.loops[l].name] = {{"size", rule.loops[l].size}, {"axes", axes_json(strategy.loops[l], mesh)}};
  return out;
}

/// The first that can say it.
int version_of(const Pipeline& pipeline) {
  int out = 1;
  for (const Program& p : pipeline.stages)
    for (const Value& v : p.graph.values)
      for (const Axes& axes : v.layout ? v.layout->dims : std::vector<Axes>())
        out = std::max(out, axes.is_by_shares() ? 3 : axes.grain() > 0 ? 2 : 1);
  return out;
}

/// Leaves have no rule of interest, and steps are told by their layouts.
Json node_json(const Graph& graph, const Node& node) {
  const std::vector<Type> operands = operand_types(graph, node), results = result_types(graph, node);
  const Call call{operands, results, node.attributes};
  Json out{{"op", node.op->name},
           {"phase", name_of(node.phase)},
           {"operands", names_json(graph, node.operands)},
           {"results", names_json(graph, node.results)},
           {"attributes", attributes_json(with_defaults(*node.op, call))}};
  if (node.op->kind == OpKind::compute) {
    out["rule"] = node.op->rule_for ? node.op->rule_for(call) : node.op->rule;
    out["loops"] = loops_json(graph, node, rule_of(graph, node));
    out["mesh"] = node.strategy ? node.strategy->mesh : 0;
  }
  if (node.is_fused) out["fused"] = true;
  if (node.is_recomputed) out["recomputed"] = true;
  if (node.space == Space::host) out["space"] = "host";
  return out;
}

/// What the backward reads of the forward: leaves and inputs stay anyway.
Json saved_json(const Graph& graph) {
  std::set<ValueId> saved;
  for (const Node& node : graph.nodes) {
    if (!is_backward(node.phase)) continue;
    for (ValueId v : node.operands) {
      const Node& producer = graph.node(graph.value(v).producer);
      const bool is_made = producer.op->kind == OpKind::compute || producer.op->kind == OpKind::step ||
                           producer.op->kind == OpKind::receive;
      if (producer.phase == Phase::forward && is_made) saved.insert(v);
    }
  }
  return names_json(graph, {saved.begin(), saved.end()});
}

Json stage_json(const Pipeline& pipeline, int s) {
  const Program& program = pipeline.stage(s);
  const Graph& graph = program.graph;
  Json out{{"stage", s},
           {"first_rank", pipeline.first_rank(s)},
           {"ranks", program.rank_count()},
           {"meshes", Json::array()},
           {"values", Json::array()},
           {"nodes", Json::array()},
           {"updates", Json::array()},
           {"saved", saved_json(graph)}};
  for (const Mesh& mesh : graph.meshes) out["meshes"].push_back(mesh_json(mesh));
  for (const Value& value : graph.values) out["values"].push_back(value_json(graph, value));
  for (const Node& node : graph.nodes) out["nodes"].push_back(node_json(graph, node));
  for (const Update& u : graph.updates)
    out["updates"].push_back({{"leaf", graph.value(u.leaf).name},
                              {"value", graph.value(u.value).name},
                              {"after", name_of(replaced_in(program, u))}});
  return out;
}

std::string_view name_of_time(CrossingTime time) {
  switch (time) {
    case CrossingTime::step: return "step";
    case CrossingTime::micro_batch: return "micro-batch";
    case CrossingTime::update: break;
  }
  return "update";
}

Json crossings_json(const Pipeline& pipeline) {
  Json out = Json::array();
  for (const PlacedCrossing& c : pipeline.crossings)
    out.push_back({{"from", c.from},
                   {"to", c.to},
                   {"sent", pipeline.stage(c.from).graph.value(c.sent).name},
                   {"received", pipeline.stage(c.to).graph.value(c.received).name},
                   {"once_a", name_of_time(c.time)}});
  return out;
}

Json transfer_json(const Pipeline& pipeline, const PreparedTransfer& t) {
  Json out{{"group", t.group()}, {"parts", Json::array()}};
  if (t.crossing >= 0)
    out["crossing"] = t.crossing;
  else
    out["stage"] = t.from_stage;
  const auto name = [&](int stage, ValueId v) {
    return v.is_valid() ? Json(pipeline.stage(stage).graph.value(v).name) : Json();
  };
  for (const Part& p : t.parts)
    out["parts"].push_back({{"from", name(t.from_stage, p.from)}, {"to", name(t.to_stage, p.to)}});
  return out;
}

Json instruction_json(const Pipeline& pipeline, const RankStep& step, const Instruction& i) {
  const Graph& graph = pipeline.stage(i.stage).graph;
  switch (i.act) {
    case Act::start: return {{"act", "start"}, {"transfer", i.what}};
    case Act::finish: return {{"act", "finish"}, {"transfer", i.what}};
    case Act::compute: return {{"act", "compute"}, {"node", i.what}};
    case Act::copy: return {{"act", "copy"}, {"node", i.what}};
    case Act::keep: return {{"act", "keep"}, {"node", i.what}};
    case Act::clear: return {{"act", "clear"}};
    case Act::fill: return {{"act", "fill"}};
    case Act::hand_out: return {{"act", "hand out"}, {"phase", name_of(static_cast<Phase>(i.what))}};
    case Act::replace: return {{"act", "replace"}, {"phase", name_of(static_cast<Phase>(i.what))}};
    case Act::run: break;
  }
  require(graph.level == Level::program, "a section of a stage that is no program");
  return {{"act", "run"}, {"section", i.what}, {"phase", name_of(step.section(i).phase)}};
}

/// `stage` of an instruction stands where it is not the list's own.
Json instructions_json(const Pipeline& pipeline, const RankStep& step, const std::vector<Instruction>& list,
                       std::optional<int> stage) {
  Json out = Json::array();
  for (const Instruction& i : list) {
    out.push_back(instruction_json(pipeline, step, i));
    if (stage != i.stage) out.back()["stage"] = i.stage;
    if (!stage) out.back()["micro_batch"] = i.micro_batch;
  }
  return out;
}

Json rank_json(const Pipeline& pipeline, const RankStep& step) {
  Json out{{"rank", step.rank},
           {"stages", pipeline.stages_of(step.rank)},
           {"transfers", Json::array()},
           {"sections", Json::array()}};
  for (const PreparedTransfer& t : step.transfers) out["transfers"].push_back(transfer_json(pipeline, t));
  for (const Section& s : step.sections)
    out["sections"].push_back({{"stage", s.stage},
                               {"phase", name_of(s.phase)},
                               {"only_last", s.only_last},
                               {"instructions", instructions_json(pipeline, step, s.instructions, s.stage)}});
  out["instructions"] = instructions_json(pipeline, step, step.instructions, std::nullopt);
  return out;
}

/// Scalars are means over micro-batches, the loss too; others stand side by side.
Json outputs_json(const Pipeline& pipeline) {
  Json out = Json::array();
  for (std::size_t i = 0; i < pipeline.outputs.size(); ++i) {
    const Graph& graph = pipeline.stage(pipeline.outputs[i].stage).graph;
    const ValueId v = graph.outputs[at(pipeline.outputs[i].index)];
    const Phase phase = handed_out_in(graph, v);
    const bool is_scalar = graph.value(v).global_type().shape.empty();
    out.push_back({{"name", pipeline.output_name(i)},
                   {"stage", pipeline.outputs[i].stage},
                   {"value", graph.value(v).name},
                   {"after", name_of(phase)},
                   {"of_micro_batches", phase == Phase::update ? "last"
                                        : is_scalar            ? "mean"
                                                               : "side by side"}});
  }
  for (const OutputInOrder& o : pipeline.in_order)
    out[at(o.output)]["in_order"] = {{"dim", o.dim}, {"blocks", o.blocks}};
  return out;
}

}  // namespace

std::string program_json(const Pipeline& pipeline) {
  Json out{{"format", "shardwright program"},
           {"version", version_of(pipeline)},
           {"ranks", pipeline.rank_count()},
           {"micro_batches", pipeline.micro_batches()},
           {"schedule", name_of(pipeline.pipelining.schedule)},
           {"batch", {{"cut_dim", 0}, {"parts", pipeline.micro_batches()}}},
           {"outputs", outputs_json(pipeline)},
           {"stages", Json::array()},
           {"crossings", crossings_json(pipeline)},
           {"steps", Json::array()}};
  for (int s = 0; s < pipeline.stage_count(); ++s) out["stages"].push_back(stage_json(pipeline, s));
  for (const RankStep& step : steps_of(pipeline)) out["steps"].push_back(rank_json(pipeline, step));
  return out.dump();
}

}  // namespace shardwright
