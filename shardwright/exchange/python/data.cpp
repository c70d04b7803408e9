#include "shardwright/exchange/python/data.h"

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/cuts_json.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {

Json placed_json(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  const Layout layout = layout_of(value);
  const Mesh& mesh = graph.meshes[at(layout.mesh)];
  Json out{{"name", value.name},
           {"dtype", short_dtype(value.type.dtype)},
           {"shape", value.global_type().shape},
           {"mesh", Json::array()},
           {"dims", Json::array()}};
  for (const Axis& axis : mesh.axes) out["mesh"].push_back({axis.name, axis.size});
  for (const Axes& axes : layout.dims) {
    out["dims"].push_back(Json::array());
    for (int a : axes) out["dims"].back().push_back(mesh.axes[at(a)].name);
  }
  add_cuts(out, layout, mesh, value.global_type().shape);
  return out;
}

Json leaf_json(const Graph& graph, const Node& node) {
  Json out = placed_json(graph, node.results[0]);
  out["kind"] = node.op->name;
  if (node.space == Space::host) out["space"] = "host";
  if (is_frozen(node)) out["frozen"] = true;
  for (const auto& [key, value] : node.attributes)
    if (key == "init" || key == "value" || key == "scale" || key == "shift" || key == "as")
      std::visit([&out, &key](const auto& v) { out["init"][key] = v; }, value);
  return out;
}

Json stage_data(const Pipeline& pipeline, int s, const python::Elements& elements,
                const std::vector<std::string>& names) {
  const Program& program = pipeline.stage(s);
  const Graph& graph = program.graph;
  const auto name = [&](ValueId v) -> const std::string& { return names[at(v.index)]; };
  Json out{{"first_rank", pipeline.first_rank(s)}, {"ranks", program.rank_count()}};
  for (const char* key : {"leaves", "inputs"}) out[key] = Json::object();
  for (const char* key : {"scalars", "updates", "step_values", "functions"}) out[key] = Json::array();
  for (const Node& node : graph.nodes) {
    if (python::is_leaf(node)) out["leaves"][name(node.results[0])] = leaf_json(graph, node);
    if (node.op->kind == OpKind::input)
      out["inputs"][name(node.results[0])] = placed_json(graph, node.results[0]);
  }
  for (Phase phase : {Phase::forward, Phase::backward, Phase::weights, Phase::update})
    for (const auto& [value, outside] : python::scalars_of(pipeline, s, phase))
      out["scalars"].push_back({name(value), outside, name_of(phase)});
  for (const Update& u : graph.updates)
    out["updates"].push_back({name(u.leaf), name(u.value), name_of(replaced_in(program, u))});
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (elements.is_of_step[at(s)][v]) out["step_values"].push_back(names[v]);
  for (const auto& [key, list] : elements.sections)
    for (const python::Element& e : list)
      if (e.item.stage == s && e.item.act == Act::compute) out["functions"].push_back(e.name);
  return out;
}

std::string section_name(const Pipeline& pipeline, int stage, Phase phase) {
  return pipeline.stage_count() == 1 ? std::string(name_of(phase))
                                     : fmt::format("{} {}", name_of(phase), stage);
}

}  // namespace shardwright
