// Rows of a table by index, and the sum of rows into a table: an embedding and its gradient.
//
//   gather                 y[p.., i.., e..] = table[p.., x[i..], e..]
//   unsorted_segment_sum   y[p.., v, e..] = sum of data[p.., i.., e..] over all i with ids[i] = v
//
// `dim` (default 0) is the table's dim v. A rank that holds part of the table's rows takes the indices that lie in
// its own range: rows of others come out as zeros, so that the parts add up, or are theirs to add.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/indexed_rows.h"

namespace shardwright::ops {
namespace {

/// The table's dim v among as many dims as its rows tell: `rows` less the dims of the indices, and v.
std::size_t dim_among_rows(const Call& call) {
  const Type &rows = call.operands[0], &ids = call.operands[1];
  if (rows.shape.size() < ids.shape.size())
    throw error("data is {} but needs at least the {} dims of the ids {}", to_text(rows), ids.shape.size(),
                to_text(ids));
  const std::size_t rank = rows.shape.size() - ids.shape.size() + 1;
  return dim_of(call.attributes.integer("dim", 0), Shape(rank, 1));
}

std::string gather_rule(const Call& call) { return rule_of_rows(call, ""); }

std::string segment_rule(const Call& call) {
  check_count(call, 2);
  const std::size_t dim = dim_among_rows(call), ids = call.operands[1].shape.size();
  const Names n = names_of(call.operands[0].shape.size() - ids + 1, ids, dim, "", "+");
  return fmt::format("{}, {} -> {}", n.rows, n.indices, n.table);
}

std::vector<Type> infer_segment(const Call& call) {
  check_count(call, 2);
  const Type &data = call.operands[0], &ids = call.operands[1];
  check_number(data.dtype);
  check_integer(ids.dtype);
  const std::size_t dim = dim_among_rows(call);
  const std::int64_t count = call.attributes.integer("count", 0);
  if (count < 1) throw error("count is {} but must be at least 1; write for example (count=10)", count);
  const auto first = data.shape.begin() + static_cast<std::ptrdiff_t>(dim);
  const auto behind = first + static_cast<std::ptrdiff_t>(ids.shape.size());
  if (!std::equal(ids.shape.begin(), ids.shape.end(), first))
    throw error("data is {} but its dims from {} on should be those of the ids {}", to_text(data), dim,
                to_text(ids));
  Shape shape(data.shape.begin(), first);
  shape.push_back(count);
  shape.insert(shape.end(), behind, data.shape.end());
  return {{data.dtype, std::move(shape)}};
}

void gather_kernel(const KernelCall& call) {
  const Rows rows(call, call.operands[0], dim_of_kernel(call, call.operands[0]), call.operands[1]);
  check_range(call, rows);
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const table = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t o = 0; o < rows.outer; ++o)
      for (std::int64_t i = 0; i < rows.indices.size(); ++i, y += rows.inner) {
        const std::int64_t at = rows[i];
        if (at < 0)
          std::fill_n(y, rows.inner, T(0));
        else
          std::copy_n(table + (o * rows.v.extent + at) * rows.inner, rows.inner, y);
      }
  });
}

void segment_kernel(const KernelCall& call) {
  const Rows rows(call, call.results[0], dim_of_kernel(call, call.results[0]), call.operands[1]);
  check_range(call, rows);
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto y = call.results[0].as<T>();
    std::fill(y.begin(), y.end(), T(0));
    add_rows(rows, call.operands[0].as<T>().data(), y.data(), call.workspace);
  });
}

std::vector<ValueId> gather_gradient(Gradient& g) {
  const Shape& table = g.type(g.in(0)).shape;
  const auto dim = static_cast<std::int64_t>(dim_of(g.attributes().integer("dim", 0), table));
  const std::int64_t count = table[static_cast<std::size_t>(dim)];
  return {g.call("unsorted_segment_sum", {g.dy(), g.in(1)}, {{"dim", dim}, {"count", count}}), {}};
}

std::vector<ValueId> segment_gradient(Gradient& g) {
  const std::int64_t dim = g.attributes().integer("dim", 0);
  return {g.call("gather", {g.dy(), g.in(1)}, {{"dim", dim}}), {}};
}

}  // namespace

std::vector<OpDef> gather() {
  return {
      {.name = "gather",
       .doc = "y[p.., i.., e..] = table[p.., x[i..], e..], the table's dim `dim` being indexed: an embedding",
       .attributes = {"dim"},
       .defaults = {{"dim", std::int64_t{0}}},
       .rule_for = gather_rule,
       .linear = "{0}",
       .infer = infer_rows,
       .flops = flops_of_rows,
       .gradient = gather_gradient,
       .kernel = gather_kernel,
       .samples = {"f32[12,4], i32[6]<12", "f32[6,4], i64[2,6]<6", "f32[4,12,6], i32[2]<12 (dim=1)",
                   "f32[4,6], i32[]<6 (dim=-1)"},
       .torch = {.line = "gather({0}, {1}, {dim}, {v.offset})", .functions = own_rows},
       .jax = {.functions = own_rows_in_jax}},
      {.name = "unsorted_segment_sum",
       .doc = "y[p.., v, e..] = sum of data[p.., i.., e..] where ids[i..] = v; v runs to `count`",
       .attributes = {"count", "dim"},
       .defaults = {{"dim", std::int64_t{0}}},
       .rule_for = segment_rule,
       .linear = "{0}",
       .infer = infer_segment,
       .flops = flops_of_rows,
       .gradient = segment_gradient,
       .kernel = segment_kernel,
       .workspace =
           [](const KernelCall& call) {
             return bytes_to_add_rows(call, call.results[0].dtype, call.operands[1]);
           },
       .samples = {"f32[6,4], i32[6]<12 (count=12)", "f32[2,6,4], i64[2,6]<6 (count=6)",
                   "f32[4,6,2], i32[6]<4 (dim=1, count=4)"},
       .torch = {.line = "segment_sum({0}, {1}, {dim}, {v.offset}, {shape})",
                 .functions = std::string(own_rows) + R"(
def segment_sum(data, ids, dim, first, shape):
    """`data` at ids is added to rows of a table; rows of other ranks are theirs."""
    dim %= len(shape)
    at, is_own = own_rows(ids, first, shape[dim])
    rows = wide(data).flatten(dim, dim + ids.dim() - 1) if ids.dim() else wide(data).unsqueeze(dim)
    rows = rows * is_own.reshape([-1] + [1] * (len(shape) - dim - 1)).to(rows.dtype)
    return torch.zeros(shape, dtype=rows.dtype, device=rows.device).index_add(dim, at, rows).to(data.dtype)
)"},
       .jax = {.functions = std::string(own_rows_in_jax) + R"(
def segment_sum(data, ids, dim, first, shape):
    """`data` at ids is added to rows of a table; rows of other ranks are theirs."""
    dim %= len(shape)
    rows = wide(data).reshape(shape[:dim] + (-1,) + shape[dim + 1 :])
    y = jnp.zeros(shape, rows.dtype).at[at_rows(ids, first, shape[dim], dim)].add(rows, mode="drop")
    return y.astype(data.dtype)
)"}}};
}

}  // namespace shardwright::ops
