#include "shardwright/exchange/jax/layouts.h"

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"

namespace shardwright::jax {
namespace {

void check(const Value& value, const Graph& graph) {
  const Layout layout = layout_of(value);
  const Mesh& mesh = graph.meshes[at(layout.mesh)];
  if (layout.mesh != 0)
    throw error("%{} lies on {} and others on {}; jax.shard_map has one mesh: give strategies on one",
                value.name, to_text(mesh), to_text(graph.meshes[0]));
  if (layout.has_halo())
    throw error(
        "%{} is read in windows that reach into the parts of neighbours ({}), which packages for JAX do not "
        "do: "
        "split other dims",
        value.name, to_text(layout, mesh));
  if (mesh.has_shares(layout.used()) && !is_even(layout, mesh, value.global_type().shape))
    throw error(
        "%{} of {} is cut into unequal shares ({} of {}); jax.shard_map has equal parts: plan without "
        "batch_shares",
        value.name, to_text(value.global_type()), to_text(layout, mesh), to_text(mesh));
  if (!is_even(layout, mesh, value.global_type().shape))
    throw error(
        "%{} of {} is cut into unequal parts ({}); jax.shard_map has equal ones: split by a divisor, or "
        "keep its operator whole (--set NAME={{}})",
        value.name, to_text(value.global_type()), to_text(layout, mesh));
}

}  // namespace

void check_layouts(const Pipeline& pipeline) {
  for (const Program& program : pipeline.stages) {
    if (program.host_bytes > 0)
      throw error(
          "the plan keeps a part in memory of the host (offload), which packages for JAX do not do; make it "
          "with "
          "--offload none");
    for (const Value& value : program.graph.values) check(value, program.graph);
  }
}

std::string axes_text(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> out;
  for (int a : axes) out.push_back(fmt::format("\"{}\"", mesh.axes[at(a)].name));
  return out.size() == 1 ? out[0] : "(" + join(out, ", ") + ")";
}

std::string dims_text(const Layout& layout, const Mesh& mesh) {
  std::vector<std::string> out;
  for (const Axes& axes : layout.dims) out.push_back(axes.empty() ? "None" : axes_text(axes, mesh));
  return join(out, ", ");
}

}  // namespace shardwright::jax
