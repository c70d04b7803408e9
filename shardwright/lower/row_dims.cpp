#include "shardwright/lower/row_dims.h"

#include <algorithm>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"

namespace shardwright {

std::optional<RowDims> rows_along(const Rule& rule, int loop) {
  RowDims out;
  bool is_mixed = false;  // with other loops in a dim
  const auto dims_of = [&](const RuleTensor& tensor) {
    std::vector<std::size_t> found;
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      if (std::ranges::find(tensor.dims[d], loop) == tensor.dims[d].end()) continue;
      is_mixed = is_mixed || tensor.dims[d].size() > 1;
      found.push_back(d);
    }
    return found;
  };
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const std::vector<std::size_t> dims = dims_of(rule.operands[i]);
    if (dims.size() > 1) return std::nullopt;
    if (!dims.empty()) out.operands.emplace_back(i, dims.front());
  }
  for (const RuleTensor& result : rule.results) {
    const std::vector<std::size_t> dims = dims_of(result);
    if (dims.size() != 1) return std::nullopt;
    out.results.push_back(dims.front());
  }
  return is_mixed || out.operands.empty() ? std::nullopt : std::optional(std::move(out));
}

bool is_alike_in_pieces(const Graph& graph, const Node& node, const RowDims& rows, std::int64_t pieces) {
  if (node.op->reads_places) return false;
  std::vector<Type> operands = operand_types(graph, node), want = result_types(graph, node);
  for (const auto& [i, dim] : rows.operands) operands[i].shape[dim] /= pieces;
  for (std::size_t r = 0; r < want.size(); ++r) want[r].shape[rows.results[r]] /= pieces;
  try {
    return infer(*node.op, {operands, {}, node.attributes}) == want;
  } catch (const Error&) {  // an attribute is of all of them
    return false;
  }
}

}  // namespace shardwright
