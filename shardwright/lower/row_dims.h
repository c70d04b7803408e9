// Dims of an operator that are rows: of some operands and of each result one by itself, so that it can be computed for some of
// them alone.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// The dims that one loop dim of an operator is: of some operands, and of each result.
struct RowDims {
  std::vector<std::pair<std::size_t, std::size_t>> operands;  // with the dim of each
  std::vector<std::size_t> results;                           // the dim
};

/// Of loop dim `loop`; nothing where that is no such dim.
std::optional<RowDims> rows_along(const Rule& rule, int loop);

/// Whether `node` is the same operator of one of `pieces` equal parts of its rows as of all of them.
bool is_alike_in_pieces(const Graph& graph, const Node& node, const RowDims& rows, std::int64_t pieces);

}  // namespace shardwright
