// Rows of a table by index: what gather, scatter and segment sums have in common.
//
// A table is [p.., v, e..] and its rows at indices [i..] are [p.., i.., e..]; attribute `dim` (default 0) is the table's
// dim v. A rank that holds part of the table's rows takes the indices that lie in its own range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"
#include "shardwright/ops/wrapping.h"

namespace shardwright::ops {

/// The dims of a table [p.., v, e..] and of rows [p.., i.., e..] as text, `mark`ed at v and i.
struct Names {
  std::string table, rows, indices;
};

inline Names names_of(std::size_t table_rank, std::size_t index_rank, std::size_t dim,
                      std::string_view v_mark, std::string_view i_mark) {
  std::vector<std::string> table, rows, indices;
  for (std::size_t d = 0; d < dim; ++d) table.push_back(fmt::format("p{}", d));
  rows = table;
  table.push_back(fmt::format("v{}", v_mark));
  for (std::size_t d = 0; d < index_rank; ++d) indices.push_back(loop_name(d, i_mark));
  rows.insert(rows.end(), indices.begin(), indices.end());
  for (std::size_t d = dim + 1; d < table_rank; ++d) {
    table.push_back(fmt::format("e{}", d - dim - 1));
    rows.push_back(table.back());
  }
  return {tensor_text(table), tensor_text(rows), tensor_text(indices)};
}

inline std::size_t dim_in_table(const Call& call, const Shape& table) {
  return dim_of(call.attributes.integer("dim", 0), table);
}

inline Shape shape_of_rows(const Shape& table, const Shape& indices, std::size_t dim) {
  Shape shape(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(dim));
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), table.begin() + static_cast<std::ptrdiff_t>(dim) + 1, table.end());
  return shape;
}

/// Rule and type of operators that take a table and indices and give the table's rows there. `i_mark`ed indices must
/// stay whole.
inline std::string rule_of_rows(const Call& call, std::string_view i_mark) {
  check_count(call, 2);
  const Shape& table = call.operands[0].shape;
  const Names n =
      names_of(table.size(), call.operands[1].shape.size(), dim_in_table(call, table), "+", i_mark);
  return fmt::format("{}, {} -> {}", n.table, n.indices, n.rows);
}

inline std::vector<Type> infer_rows(const Call& call) {
  check_count(call, 2);
  const Type &table = call.operands[0], &indices = call.operands[1];
  check_number(table.dtype);
  check_integer(indices.dtype);
  return {{table.dtype, shape_of_rows(table.shape, indices.shape, dim_in_table(call, table.shape))}};
}

/// A table as `outer` blocks of v rows of `inner` elements, and the indices with this rank's part of v.
struct Rows {
  std::int64_t outer = 1, inner = 1;
  LoopBox::Part v;
  Integers indices;

  Rows(const KernelCall& call, const TensorView& table, std::size_t dim, const TensorView& indices_of)
      : v(call.loop("v")), indices(indices_of) {
    const std::span<const std::int64_t> shape = table.shape;
    outer = element_count(shape.first(dim));
    inner = element_count(shape.subspan(dim + 1));
  }

  /// Where row i lies in this rank's part, or -1 if another has it.
  std::int64_t operator[](std::int64_t i) const {
    const std::int64_t at = indices[i] - v.offset;
    return at >= 0 && at < v.extent ? at : -1;
  }
};

/// Throws: Error on an index outside the table.
inline void check_range(const Rows& rows) {
  for (std::int64_t i = 0; i < rows.indices.size(); ++i)
    if (rows.indices[i] < 0 || rows.indices[i] >= rows.v.size)
      throw error("an index is {} but there are {} rows: 0 to {}", rows.indices[i], rows.v.size,
                  rows.v.size - 1);
}

inline std::size_t dim_of_kernel(const KernelCall& call, const TensorView& table) {
  return dim_of(call.attributes.integer("dim", 0), table.shape);
}

/// table[index] += data, row by row.
template <class T>
void add_rows(const Rows& rows, const T* data, T* table) {
  vectorized([rows, data, table] {
    const T* from = data;
    for (std::int64_t o = 0; o < rows.outer; ++o)
      for (std::int64_t i = 0; i < rows.indices.size(); ++i, from += rows.inner) {
        const std::int64_t at = rows[i];
        if (at < 0) continue;
        T* const to = table + (o * rows.v.extent + at) * rows.inner;
#pragma GCC ivdep
        for (std::int64_t e = 0; e < rows.inner; ++e)
          to[e] =
              static_cast<T>(wrapping_sum(static_cast<Compute<T>>(to[e]), static_cast<Compute<T>>(from[e])));
      }
  });
}

}  // namespace shardwright::ops
