// Every value lies in one layout, whose boxes on all ranks are the whole tensor: every element in exactly one part
// (in windows' halos in more, and in none where strides pass it by), and every part on as many ranks as the layout
// replicates it or has addends of it. Steps take away the partials that they reduce, and no others.

#include <algorithm>
#include <map>
#include <set>

#include "shardwright/graph/op.h"
#include "shardwright/verify/violation.h"

namespace shardwright {
namespace {

/// What is wrong with the boxes that the ranks hold; empty if nothing.
std::string fault_of_boxes(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  std::map<std::pair<Shape, Shape>, int> ranks_of;  // by box
  std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> ranges(shape.size());
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box b = box(layout, mesh, shape, rank);
    if (is_empty(b)) continue;
    ++ranks_of[{b.offset, b.extent}];
    for (std::size_t d = 0; d < shape.size(); ++d) ranges[d].insert({b.offset[d], b.offset[d] + b.extent[d]});
  }
  std::size_t boxes = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    boxes *= ranges[d].size();
    if (layout.has_halo() && layout.windows[d].loop > 0)
      continue;  // what an operator reads, with gaps or twice
    std::int64_t end = 0;
    for (const auto& [begin, e] : ranges[d]) {
      if (begin > end) return fmt::format("nobody holds {} to {} of dim {}", end, begin, d);
      if (begin < end) return fmt::format("dim {} is cut twice at {}", d, begin);
      end = std::max(end, e);
    }
    if (end != shape[d] && !ranks_of.empty())
      return fmt::format("nobody holds {} to {} of dim {}", end, shape[d], d);
  }
  const bool is_none = std::any_of(shape.begin(), shape.end(), [](auto e) { return e == 0; });
  if (!is_none && boxes != ranks_of.size())
    return fmt::format("of {} parts {} are somewhere", boxes, ranks_of.size());
  Axes cutting;
  for (const Axes& axes : layout.dims) cutting = cutting.with(axes);
  for (const auto& [b, ranks] : ranks_of)
    if (!layout.has_halo() && ranks * mesh.count(cutting) != mesh.size())
      return fmt::format("a part is on {} ranks", ranks);
  return "";
}

/// What a step does to partials, against what its layouts say.
std::string fault_of_step(const Graph& graph, const Node& node) {
  const Value &operand = graph.value(node.operands.front()), &result = graph.value(node.results.front());
  const Layout from = layout_of(operand), to = layout_of(result);
  if (operand.global_type() != result.global_type())
    return fmt::format("a step from {} to {}", to_text(operand.global_type()), to_text(result.global_type()));
  const StepKind kind = *node.op->step;
  if (is_of_host(kind))
    return from == to ? "" : "a copy from or to the host lies otherwise than what it copies";
  const bool is_elsewhere = from.mesh != to.mesh && !from.used().empty() && !to.used().empty();
  if (is_elsewhere || kind == StepKind::exchange)  // axes of different meshes do not compare
    return from.is_partial() || to.is_partial() ? "what is partial cannot go there" : "";
  const bool reduces = kind == StepKind::all_reduce || kind == StepKind::reduce_scatter;
  const Axes axes = step_of(graph, node).axes.sorted();
  const Axes gone_sum = from.sum.without(to.sum), gone_max = from.max.without(to.max);
  const Axes& gone = node.op->reduction == Reduction::sum ? gone_sum : gone_max;
  const Axes& other = node.op->reduction == Reduction::sum ? gone_max : gone_sum;
  if (reduces ? gone != axes || !other.empty() : !gone_sum.empty() || !gone_max.empty())
    return "the partials that are gone are not those that it reduces";
  if (to.sum.without(from.sum) != (kind == StepKind::mask ? axes : Axes{}) ||
      !to.max.without(from.max).empty())
    return "the partials that are new are not those that it makes";
  return "";
}

void check_stage(const Pipeline& pipeline, int stage, Violations& out) {
  const Program& program = pipeline.stage(stage);
  const Graph& graph = program.graph;
  std::set<ValueId> received;
  for (const PlacedCrossing& c : pipeline.crossings)
    if (c.to == stage) received.insert(c.received);
  std::map<std::pair<Layout, Shape>, std::string> known;
  for (const Value& v : graph.values) {
    const auto bad = [&](const std::string& why) {
      out.push_back(violation("stage {}: %{} {}: {}", stage, v.name, to_text(v.type), why));
    };
    const Layout layout = layout_of(v);
    if (layout.mesh < 0 || layout.mesh >= static_cast<int>(graph.meshes.size())) {
      bad("its layout is on no mesh");
      continue;
    }
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(layout.mesh)];
    const Shape whole = v.global_type().shape;
    if (mesh.size() != program.rank_count())
      bad(fmt::format("its mesh has {} ranks of {}", mesh.size(), program.rank_count()));
    if (layout.dims.size() != whole.size()) {
      bad(fmt::format("its layout is for {} dims", layout.dims.size()));
      continue;
    }
    const auto [place, is_new] = known.try_emplace({layout, whole});
    if (is_new) place->second = fault_of_boxes(layout, mesh, whole);
    if (!place->second.empty())
      bad(fmt::format("of {}: {}", to_text(whole), place->second));
    else if (v.type.shape != largest_local_shape(layout, mesh, whole))
      bad(fmt::format("its layout {} of {} gives {}", to_text(layout, mesh), to_text(whole),
                      to_text(largest_local_shape(layout, mesh, whole))));
  }
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind == OpKind::receive && !received.contains(node.results.front()))
      out.push_back(violation("stage {}: %{} is received but nobody sends it", stage, graph.name_of(id)));
    if (node.op->kind != OpKind::step) continue;
    const std::string why = fault_of_step(graph, node);
    if (!why.empty())
      out.push_back(violation("stage {}: %{} = {} of %{}: {}", stage, graph.name_of(id), node.op->name,
                              graph.value(node.operands.front()).name, why));
  }
}

}  // namespace

Violations incomplete_layouts(const Pipeline& pipeline) {
  Violations out;
  for (int s = 0; s < pipeline.stage_count(); ++s) check_stage(pipeline, s, out);
  return out;
}

}  // namespace shardwright
