#include "shardwright/annotations/expert_axes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "shardwright/base/index.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// The devices inside of which features of an expert are split, and those inside of which experts are, too.
std::array<std::int64_t, 2> inner_devices(const Degrees& degrees) {
  const std::int64_t features = degrees.of_experts_features();
  return {features, features * degrees.of("ep")};
}

/// `degree`, of which `before` devices lie inside, cut where one of `inner` ends.
std::vector<int> cut(std::int64_t degree, std::int64_t before, std::array<std::int64_t, 2> inner) {
  std::vector<int> out;
  std::int64_t left = degree;
  for (std::size_t i = inner.size(); i-- > 0;) {  // outer ones first
    const std::int64_t at = inner[i] / before;
    if (inner[i] % before != 0 || at <= 1 || at >= left) continue;
    out.push_back(static_cast<int>(left / at));
    left = at;
  }
  out.push_back(static_cast<int>(left));
  return out;
}

/// So many devices are an inner part of (dp cp tp): a part of tp, or all of it and cp, and a part of dp.
bool is_inner(std::int64_t devices, const Degrees& degrees) {
  const int data = degrees.sharing(Sharing::batch), tensor = degrees.sharing(Sharing::work);
  const int whole = tensor * degrees.sharing(Sharing::sequence);
  if (devices <= tensor) return tensor % devices == 0;
  return devices % whole == 0 && data % (devices / whole) == 0;
}

}  // namespace

std::string refusal_of_experts(const Degrees& degrees) {
  const auto inner = inner_devices(degrees);
  if (is_inner(inner[0], degrees) && is_inner(inner[1], degrees)) return {};
  const int data = degrees.sharing(Sharing::batch), tensor = degrees.sharing(Sharing::work),
            context = degrees.sharing(Sharing::sequence);
  const std::string by_context = context > 1 ? fmt::format(" x cp={}", context) : "";
  return fmt::format(
      "ep={}, etp={}: {} devices share experts, which is no inner part of the dp={}{} x tp={} of a stage; "
      "etp, "
      "and ep x etp, should divide tp, or be multiples of {} that divide {}",
      degrees.of("ep"), inner[0], inner[1], data, by_context, tensor, context > 1 ? "cp x tp" : "it",
      std::int64_t{data} * context * tensor);
}

DegreeParts expert_parts(const Degrees& degrees) {
  const int data = degrees.sharing(Sharing::batch), tensor = degrees.sharing(Sharing::work);
  if (!degrees.said("ep") && !degrees.said("etp")) return {{data}, {tensor}};
  if (const std::string why = refusal_of_experts(degrees); !why.empty()) throw error("{}", why);
  const auto inner = inner_devices(degrees);
  return {cut(data, std::int64_t{tensor} * degrees.sharing(Sharing::sequence), inner), cut(tensor, 1, inner)};
}

Axes add_axes(Mesh& mesh, const char* degree, const std::vector<int>& parts) {
  Axes out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == 1) continue;
    out.push_back(mesh.axis_count());
    mesh.axes.push_back({parts.size() == 1 ? degree : fmt::format("{}{}", degree, i), parts[i]});
  }
  return out;
}

Axes ExpertAxes::all() const {
  Axes out = experts;
  for (int a : features) out.push_back(a);
  return out;
}

ExpertAxes expert_axes(const Mesh& mesh, const Degrees& degrees) {
  const auto inner = inner_devices(degrees);
  ExpertAxes out;
  std::int64_t inside = mesh.size();  // devices that differ along axes from this one on, then behind it
  for (int a = 0; a < mesh.axis_count(); ++a) {
    inside /= mesh.size_of(a);
    if (inside < inner[0])
      out.features.push_back(a);
    else if (inside < inner[1])
      out.experts.push_back(a);
  }
  return out;
}

std::vector<std::pair<int, Axes>> expert_loops(const Node& node, const Rule& rule, const ExpertAxes& axes,
                                               std::span<const Axes> of_rows) {
  const RoutedFacet& routed = *node.op->routed;
  std::vector<std::pair<int, Axes>> out{{rule.loop(routed.experts), axes.experts},
                                        {rule.loop(routed.inner), axes.features}};
  const auto& rows = rule.operands[routed.rows].dims;
  for (std::size_t d = 0; d + 1 < rows.size(); ++d)
    if (rows[d].size() == 1) out.emplace_back(rows[d][0], of_rows[d].without(axes.all()));
  std::erase_if(out, [](const auto& split) { return split.second.empty(); });
  return out;
}

std::set<NodeId> routing_nodes(const Graph& graph) {
  const auto is_made = [&](ValueId v) { return is_forward_operator(graph.node(graph.value(v).producer)); };
  std::vector<ValueId> open;
  std::set<NodeId> out;
  for (const Node& node : graph.nodes)
    if (node.op->routed && is_forward_operator(node))
      open.insert(open.end(), {node.operands[node.op->routed->ids], node.operands[node.op->routed->ids + 1]});
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const NodeId maker = graph.value(v).producer;
    if (!is_made(v) || !out.insert(maker).second) continue;
    const Node& node = graph.node(maker);
    // A weight: what is in front is of the network.
    const bool is_first = std::ranges::any_of(
        node.operands, [&](ValueId x) { return !is_made(x) && graph.value(x).type.shape.size() > 1; });
    if (!is_first) open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return out;
}

std::int64_t experts_of(const Graph& graph) {
  std::int64_t out = 0;
  for (const Node& node : graph.nodes) {
    if (!node.op->routed || !is_forward_operator(node)) continue;
    const Rule rule = rule_of(graph, node);
    const std::int64_t own = rule.loops[at(rule.loop(node.op->routed->experts))].size;
    out = out == 0 ? own : std::gcd(out, own);
  }
  return out;
}

void check_experts(const Graph& graph, const Constraints& constraints) {
  for (const char* degree : {"ep", "etp"}) {
    const int asked = constraints.degrees.of(degree);
    if (asked == 1) continue;
    const std::int64_t experts = experts_of(graph);
    if (experts == 0) throw error("{}={}: the network has no experts; leave it out", degree, asked);
    if (degree == std::string_view("ep") && experts % asked)
      throw error("ep={}: does not divide the {} experts of the network", asked, experts);
  }
}

}  // namespace shardwright
