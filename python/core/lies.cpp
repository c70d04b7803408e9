// Where what a program keeps and computes lies, told in numbers.
#include <pybind11/stl.h>

#include "python/core/program.h"
#include "shardwright/layout/strategy.h"
#include "shardwright/plan/plan.h"

namespace shardwright::python {

using namespace py::literals;

namespace {

std::vector<int> sizes_of(const Mesh& mesh) {
  std::vector<int> out;
  for (const Axis& axis : mesh.axes) out.push_back(axis.size);
  return out;
}

std::vector<std::vector<int>> map_of(const Layout& layout) {
  std::vector<std::vector<int>> out;
  for (const Axes& axes : layout.dims) out.emplace_back(axes.begin(), axes.end());
  return out;
}

}  // namespace

/// {shape, dtype, mesh, map, stage, first_rank, boxes} of each value. map: per dim the axes of the mesh that cut it, the
/// outermost first; boxes: (offset, extent) of each rank of the stage.
py::dict layouts_of(const Program& program) {
  const Session& session = program.step().session();
  const KeptValues& kept = session.kept();
  py::dict out;
  for (const Kept& value : kept.all()) {
    if (&kept.parameter_of(value) != &value || kept.is_cache(value)) continue;
    const Type type = kept.type_of(value);
    const auto [stage, v] = kept.place_of(value);
    const Placement place = placement_of(session.pipeline(), stage, v);
    std::vector<std::pair<Shape, Shape>> boxes;
    for (int r = 0; r < place.mesh->size(); ++r) {
      const Box b = place.box_on(place.first_rank + r, type.shape);
      boxes.emplace_back(b.offset, b.extent);
    }
    out[py::str(value.name)] =
        py::dict("shape"_a = type.shape, "dtype"_a = numpy_name(type.dtype), "mesh"_a = sizes_of(*place.mesh),
                 "map"_a = map_of(place.layout), "stage"_a = stage, "first_rank"_a = place.first_rank,
                 "boxes"_a = boxes);
  }
  return out;
}

/// {mesh, in, stage} of each; in: per input and dim the axes of the mesh that cut it, the outermost first.
py::dict operators_of(const Program& program) {
  py::dict out;
  const PlannedStages planned = apply(program.step().plan(), program.step().graph());
  for (std::size_t stage = 0; stage < planned.stages.size(); ++stage) {
    const Graph& graph = planned.stages[stage].graph;
    for (const Node& node : graph.nodes) {
      if (node.op->kind != OpKind::compute || node.phase != Phase::forward || !node.strategy) continue;
      const Mesh& mesh = graph.meshes[static_cast<std::size_t>(node.strategy->mesh)];
      std::vector<std::vector<std::vector<int>>> in;
      for (const Layout& layout : shardwright::layouts_of(rule_of(graph, node), *node.strategy).operands)
        in.push_back(map_of(layout));
      out[py::str(graph.value(node.results[0]).name)] =
          py::dict("mesh"_a = sizes_of(mesh), "in"_a = in, "stage"_a = stage);
    }
  }
  return out;
}

}  // namespace shardwright::python
