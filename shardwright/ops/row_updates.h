// Updates that touch only the rows of tables that a batch has looked up: their gradient stays the rows that lookups have given
// gradients to, and their ids, instead of a tensor of the tables' size that is zero but for them.
//
// An optimizer's update by rows, `NAME_rows`, has the operands of NAME with such rows in the gradient's place, and the ids behind
// all but the rate. It is NAME on each row with the sum of its gradients. So sgd and adagrad do what they do to the whole tensor,
// where weights do not decay; lazy_adam leaves the moments of other rows alone, which is its definition (PyTorch's SparseAdam,
// MindSpore's LazyAdam). Optimizers that move every row in every step have no such form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/node_kinds.h"  // IWYU pragma: export
#include "shardwright/graph/op.h"

namespace shardwright {

/// Of a parameter: it is a table whose gradient is kept as rows.
constexpr std::string_view sparse_attribute = "sparse";
void mark_sparse(Graph& graph, ValueId table);

/// What makes a table's gradient: the gradients `rows` of what was looked up at `ids`.
struct RowGradient {
  ValueId rows, ids;
  std::string bag;  // what is looked up: rows themselves (none), or their sum or mean
};
/// Of `gradient`, if it is one of rows, perhaps cast to another type; nothing otherwise.
std::optional<RowGradient> row_gradient(const Graph& graph, ValueId gradient);

/// The sum of squares of the gradient of a table of that shape.
ValueId squares_of_rows(Builder& builder, const RowGradient& gradient, const Shape& table);

/// The operator that does `optimizer` by rows, or nothing where that would be another update.
const OpDef* by_rows(const OpDef& optimizer, const Attributes& settings);

/// What to tell of the tables of a train step that are updated whole: a line each.
std::vector<std::string> tables_updated_whole(const Graph& graph);

/// Rows that are kept from micro-batch to micro-batch: operands are what is kept, and what is put behind it.
const OpDef& push_op();

/// The rows and ids that `node`, of the update, reads of a gradient that is rows; nothing if it reads none.
struct RowOperands {
  std::size_t rows = 0, ids = 0;
};
std::optional<RowOperands> row_operands(const Node& node);

}  // namespace shardwright
