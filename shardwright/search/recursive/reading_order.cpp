#include "shardwright/search/recursive/reading_order.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright::recursive {
namespace {

constexpr std::size_t most_dims = 4;

/// Nodes from the outputs on, each before what it reads, of that the last first.
std::vector<NodeId> listed_from_the_end(const Graph& graph) {
  std::vector<NodeId> out, waiting;
  std::vector<bool> is_seen(graph.nodes.size(), false);
  for (ValueId v : graph.outputs) waiting.push_back(graph.value(v).producer);
  while (!waiting.empty()) {
    const NodeId id = waiting.back();
    waiting.pop_back();
    if (is_seen[at(id.index)]) continue;
    is_seen[at(id.index)] = true;
    out.push_back(id);
    for (ValueId v : graph.node(id).operands) waiting.push_back(graph.value(v).producer);
  }
  return out;
}

}  // namespace

std::vector<int> reading_order(const space::CutProblem& problem, const std::vector<int>& mains,
                               std::optional<ValueId> data) {
  const Graph& graph = problem.graph();
  std::vector<bool> is_open(at(problem.size()), false);
  for (int p : mains) is_open[at(p)] = true;
  std::vector<NodeId> listed = listed_from_the_end(graph);
  std::ranges::reverse(listed);
  std::vector<int> out;
  for (NodeId id : listed) {
    const int p = problem.part_of(id);
    if (data && graph.value(*data).producer == id) out.push_back(data_part);
    if (p < 0 || !is_open[at(p)]) continue;
    is_open[at(p)] = false;  // of equal layers the first
    out.push_back(p);
  }
  for (int p : mains)
    if (is_open[at(p)]) out.push_back(p);  // what nothing reads
  return out;
}

std::optional<ValueId> only_data(const Graph& graph) {
  std::optional<ValueId> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    if (out) return std::nullopt;
    out = node.results.front();
  }
  return out && graph.value(*out).type.shape.size() <= most_dims ? out : std::nullopt;
}

space::Cut DataCuts::cut(const std::vector<space::Cut>& readers, int parts) {
  space::Cut best = space::not_cut;
  std::ptrdiff_t most = -1;
  for (std::size_t d = 0; d < left_.size(); ++d) {
    const auto count = std::ranges::count(readers, static_cast<space::Cut>(d));
    if (left_[d] % parts || count <= most) continue;
    best = static_cast<space::Cut>(d);
    most = count;
  }
  if (best >= 0) left_[at(best)] /= parts;
  return best;
}

}  // namespace shardwright::recursive
