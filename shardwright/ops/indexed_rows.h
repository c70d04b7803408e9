// Rows of a table by index: what gather, scatter and segment sums have in common.
//
// A table is [p.., v, e..] and its rows at indices [i..] are [p.., i.., e..]; attribute `dim` (default 0) is the table's
// dim v. A rank that holds part of the table's rows takes the indices that lie in its own range.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"
#include "shardwright/ops/wrapping.h"

namespace shardwright::ops {

/// In PyTorch: gather, and what others of the family share with it.
inline constexpr const char* own_rows = R"(
def own_rows(indices, first, count):
    """Where indices are among a rank's `count` rows, which begin at `first`, and whether they are."""
    at = indices.reshape(-1).long() - first
    return at.clamp(0, max(count - 1, 0)), (at >= 0) & (at < count)


def gather(table, indices, dim, first):
    """Rows of other ranks are zeros."""
    dim %= table.dim()
    at, is_own = own_rows(indices, first, table.shape[dim])
    rows = table.index_select(dim, at) * is_own.reshape([-1] + [1] * (table.dim() - dim - 1)).to(table.dtype)
    return rows.reshape(table.shape[:dim] + indices.shape + table.shape[dim + 1 :])
)";

inline constexpr const char* own_rows_in_jax = R"(
def own_rows(indices, first, count):
    """Where indices are among a rank's `count` rows, which begin at `first`, and whether they are."""
    at = indices.reshape(-1).astype(jnp.int64) - first
    return jnp.clip(at, 0, max(count - 1, 0)), (at >= 0) & (at < count)


def at_rows(indices, first, count, dim):
    """As an index along `dim`; one behind the end, which is dropped, where a row is another rank's."""
    at, is_own = own_rows(indices, first, count)
    return (slice(None),) * dim + (jnp.where(is_own, at, count),)


def gather(table, indices, dim, first):
    """Rows of other ranks are zeros."""
    dim %= table.ndim
    at, is_own = own_rows(indices, first, table.shape[dim])
    is_own = is_own.reshape((-1,) + (1,) * (table.ndim - dim - 1))
    rows = jnp.where(is_own, jnp.take(table, at, dim), jnp.zeros((), table.dtype))
    return rows.reshape(table.shape[:dim] + indices.shape + table.shape[dim + 1 :])
)";

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

/// One per element of the rows that are read or added, whatever the size of the tables.
inline double flops_of_rows(const Rule& rule) {
  double n = 1;
  for (const LoopDim& l : rule.loops)
    if (l.name != "v") n *= static_cast<double>(l.size);
  return n;
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

/// Where element `i` of this rank's part of operand `operand` stands in the whole one, ` at [0, 3]`.
inline std::string place_of(const KernelCall& call, std::size_t operand, std::int64_t i) {
  const RuleTensor& dims = call.rule.operands[operand];
  std::vector<std::string> place(dims.dims.size());
  for (std::size_t d = place.size(); d-- > 0;) {
    const LoopBox::Part& part = call.box.loops[static_cast<std::size_t>(dims.dims[d][0])];
    place[d] = std::to_string(part.offset + i % part.extent);
    i /= part.extent;
  }
  return place.empty() ? "" : fmt::format(" at [{}]", join(place, ", "));
}

/// Throws: Error on an index, which are operand 1, outside the table.
inline void check_range(const KernelCall& call, const Rows& rows) {
  for (std::int64_t i = 0; i < rows.indices.size(); ++i)
    if (rows.indices[i] < 0 || rows.indices[i] >= rows.v.size)
      throw error("the index{} is {} but there are {} rows: 0 to {}", place_of(call, 1, i), rows.indices[i],
                  rows.v.size, rows.v.size - 1);
}

inline std::size_t dim_of_kernel(const KernelCall& call, const TensorView& table) {
  return dim_of(call.attributes.integer("dim", 0), table.shape);
}

/// table[index] += data for short types, in which a row's sum must not be kept between two addends: the addends of each row of the
/// table are sorted together in `memory`, and the row is written once.
template <class T>
void add_rows_sorted(const Rows& rows, const T* data, T* table, std::int64_t* memory) {
  const std::int64_t count = rows.indices.size();
  std::int64_t *const ends = memory, *const order =
                                         memory + rows.v.extent;  // addends of row r end at ends[r]
  std::fill_n(ends, rows.v.extent, 0);
  for (std::int64_t i = 0; i < count; ++i)
    if (const std::int64_t at = rows[i]; at >= 0 && at + 1 < rows.v.extent) ++ends[at + 1];
  for (std::int64_t r = 1; r < rows.v.extent; ++r) ends[r] += ends[r - 1];  // as yet where they begin
  for (std::int64_t i = 0; i < count; ++i)
    if (const std::int64_t at = rows[i]; at >= 0) order[ends[at]++] = i;
  vectorized([=, extent = rows.v.extent, outer = rows.outer, inner = rows.inner] {
    constexpr std::int64_t strip = 512;
    std::array<double, strip> sums;
    double* const sum = sums.data();
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t r = 0, begin = 0; r < extent; begin = ends[r++])
        for (std::int64_t start = 0; begin < ends[r] && start < inner; start += strip) {
          const std::int64_t n = std::min(strip, inner - start);
          T* const to = table + (o * extent + r) * inner + start;
          for (std::int64_t e = 0; e < n; ++e) sum[e] = static_cast<double>(static_cast<float>(to[e]));
          for (std::int64_t i = begin; i < ends[r]; ++i) {
            const T* const from = data + (o * count + order[i]) * inner + start;
            for (std::int64_t e = 0; e < n; ++e) sum[e] += static_cast<double>(static_cast<float>(from[e]));
          }
          for (std::int64_t e = 0; e < n; ++e) to[e] = static_cast<T>(static_cast<float>(sum[e]));
        }
  });
}

/// Bytes that add_rows needs for a table [p.., v, e..] of elements of `dtype`.
inline std::int64_t bytes_to_add_rows(const KernelCall& call, DType dtype, const TensorView& indices) {
  if (!is_floating(dtype) || size_of(dtype) >= sizeof(float)) return 0;
  return (call.loop("v").extent + indices.size()) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

/// table[index] += data, row by row. `workspace` has bytes_to_add_rows.
template <class T>
void add_rows(const Rows& rows, const T* data, T* table, std::byte* workspace) {
  if constexpr (is_short<T>)
    return add_rows_sorted(rows, data, table, reinterpret_cast<std::int64_t*>(workspace));
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
