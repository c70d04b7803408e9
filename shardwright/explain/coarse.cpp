#include "shardwright/explain/coarse.h"

#include "shardwright/base/index.h"
#include "shardwright/search/space/axes.h"

namespace shardwright {
namespace {

/// Calls `use` with every list of axes of mesh `mesh` that `graph` speaks of.
template <class Use>
void for_each_list(Graph& graph, int mesh, Use use) {
  for (Node& node : graph.nodes) {
    if (!node.strategy || node.strategy->mesh != mesh) continue;
    for (auto* lists : {&node.strategy->loops, &node.strategy->linear})
      for (Axes& axes : *lists) use(axes);
  }
  for (Value& v : graph.values) {
    if (!v.layout || v.layout->mesh != mesh) continue;
    for (Axes& axes : v.layout->dims) use(axes);
    use(v.layout->sum);
    use(v.layout->max);
  }
}

/// Axes of which any two may become one.
Mesh with_one_name(Mesh mesh) {
  for (int a = 0; a < mesh.axis_count(); ++a) mesh.axes[at(a)].name = fmt::format("all/{}", a);
  return mesh;
}

}  // namespace

Graph on_few_axes(Graph graph, int most) {
  for (int m = 0; m < static_cast<int>(graph.meshes.size()); ++m) {
    const Mesh mesh = graph.meshes[at(m)];
    if (mesh.axis_count() <= most) continue;
    std::vector<Axes> lists;
    for_each_list(graph, m, [&](const Axes& axes) { lists.push_back(axes); });
    space::JoinedMesh few = space::joined_axes(with_one_name(mesh), lists);
    for (Axis& axis : few.mesh.axes) axis.name.clear();
    for (int a = 0; a < mesh.axis_count(); ++a) {
      std::string& name = few.mesh.axes[at(few.axis_of[at(a)])].name;
      name += (name.empty() ? "" : "/") + mesh.axes[at(a)].name;
    }
    for_each_list(graph, m, [&](Axes& axes) { axes = space::joined(axes, few); });
    graph.meshes[at(m)] = few.mesh;
  }
  return graph;
}

}  // namespace shardwright
