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

/// What devices have of the batch where they have unequal shares of it.
void check_shares(const Graph& graph, const std::vector<int>& shares, int data, bool has_equal_parts) {
  const std::string said = fmt::format("batch_shares={}", shares_text(shares));
  if (static_cast<int>(shares.size()) != data)
    throw error("{}: {} shares, but dp={}; say one for each replica", said, shares.size(), data);
  if (has_equal_parts) throw error("{}: what is written here has equal parts; leave it out", said);
  if (has_routed_rows(graph)) throw error("{}: rows of experts are shared evenly; leave it out", said);
  const Mesh mesh{{{"dp", data, shares}}};
  for (const Node& node : graph.nodes)
    for (std::size_t d : batch_dims_of_leaf(graph, node)) {
      const Value& v = graph.value(node.results.front());
      if (smallest_part(Axes{0}.by_shares(), mesh, v.type.shape[d]) == 0)
        throw error("{}: of the {} samples in a micro-batch of %{} a replica would have none", said,
                    v.type.shape[d], v.name);
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

void check_data(const Graph& graph, const Calls& calls, const Constraints& constraints,
                bool has_equal_parts) {
  const Degrees& degrees = constraints.degrees;
  const int data = degrees.sharing(Sharing::batch);
  if (constraints.batch_shares)
    check_shares(graph, *constraints.batch_shares, data, has_equal_parts);
  else
    check_batch(graph, data, has_equal_parts);
  const int context = degrees.sharing(Sharing::sequence);
  if (context > 1) check_sequence(graph, sequence_dims(graph, calls), context);
}

void check_unsplit(const Graph& graph, const Node& node, const LoopDim& batch, int data, bool has_shares) {
  if (has_shares && batch.size >= data && !batch.stays_whole())
    throw error("batch_shares: the {} samples of {} cannot be cut unevenly; leave it out", batch.size,
                graph.value(node.results.front()).name);
  if (batch.size % data && batch.size > data && !batch.stays_whole())
    throw error("dp={}: does not divide the {} samples of {}, which cannot be cut unevenly", data, batch.size,
                graph.value(node.results.front()).name);
}

}  // namespace shardwright
