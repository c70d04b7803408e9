#include "shardwright/annotations/degree_checks.h"

#include <algorithm>

#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

void check_batch(const Graph& graph, int data, bool has_equal_parts) {
  const bool is_routed = has_routed_rows(graph);
  for (const Node& node : graph.nodes)
    for (std::size_t d : batch_dims_of_leaf(graph, node)) {
      const Value& v = graph.value(node.results.front());
      if (v.type.shape[d] < data)
        throw error("dp={}: more than the {} sample{} in a micro-batch of %{}", data, v.type.shape[d],
                    v.type.shape[d] == 1 ? "" : "s", v.name);
      if (has_equal_parts && v.type.shape[d] % data)
        throw error("dp={}: does not divide the {} samples of a micro-batch of %{}", data, v.type.shape[d],
                    v.name);
      if (is_routed && v.type.shape[d] % data)
        throw error(
            "dp={}: does not divide the {} samples of a micro-batch of %{}, and those of experts are shared "
            "evenly",
            data, v.type.shape[d], v.name);
    }
}

void check_sequence(const Graph& graph, const SequenceDims& dims, int parts) {
  for (const Node& node : graph.nodes) {
    if (batch_dims_of_leaf(graph, node).empty()) continue;
    const Value& v = graph.value(node.results.front());
    const std::vector<bool>& is_sequence = dims[at(node.results.front().index)];
    for (std::size_t d = 0; d < is_sequence.size(); ++d)
      if (is_sequence[d] && v.type.shape[d] % parts)
        throw error("cp={}: does not divide the sequence of {} of %{}", parts, v.type.shape[d], v.name);
  }
}

}  // namespace

bool has_routed_rows(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op->routed.has_value(); });
}

void check_data(const Graph& graph, const Calls& calls, const Degrees& degrees, bool has_equal_parts) {
  check_batch(graph, degrees.sharing(Sharing::batch), has_equal_parts);
  const int context = degrees.sharing(Sharing::sequence);
  if (context > 1) check_sequence(graph, sequence_dims(graph, calls), context);
}

void check_unsplit(const Graph& graph, const Node& node, const LoopDim& batch, int data) {
  if (batch.size % data && batch.size > data && !batch.stays_whole())
    throw error("dp={}: does not divide the {} samples of {}, which cannot be cut unevenly", data, batch.size,
                graph.value(node.results.front()).name);
}

}  // namespace shardwright
