// Rows written into a table by index.
//
//   scatter       y = x, and y[p.., indices[i..], e..] = updates[p.., i.., e..]; of equal indices the last one counts
//   scatter_add   y = x + the sum of updates at equal indices
//
// All indices must be known, the table may be split. Where a row was overwritten, dx is 0, and so is the gradient of
// updates that a later one overwrote.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/indexed_rows.h"

namespace shardwright::ops {
namespace {

std::string scatter_rule(const Call& call) {
  check_count(call, 3);
  const Shape& table = call.operands[0].shape;
  const Names n = names_of(table.size(), call.operands[1].shape.size(), dim_in_table(call, table), "", "^");
  return fmt::format("{}, {}, {} -> {}", n.table, n.indices, n.rows, n.table);
}

std::vector<Type> infer_scatter(const Call& call) {
  check_count(call, 3);
  const Type &x = call.operands[0], &indices = call.operands[1], &updates = call.operands[2];
  check_number(x.dtype);
  check_integer(indices.dtype);
  check_same_dtype(call, 0, 2);
  const Shape wanted = shape_of_rows(x.shape, indices.shape, dim_in_table(call, x.shape));
  if (updates.shape != wanted)
    throw error("updates are {} but x {} at indices {} needs {}", to_text(updates), to_text(x),
                to_text(indices), to_text(wanted));
  return {x};
}

/// Copies x to y, where it is not there already, and calls `write(rows, updates, y)`.
template <class Write>
void write_rows(const KernelCall& call, Write write) {
  const Rows rows(call, call.operands[0], dim_of_kernel(call, call.operands[0]), call.operands[1]);
  check_range(call, rows);
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto x = call.operands[0].as<T>();
    T* const y = call.results[0].as<T>().data();
    if (x.data() != y) std::copy(x.begin(), x.end(), y);
    write(rows, static_cast<const T*>(call.operands[2].as<T>().data()), y);
  });
}

void scatter_kernel(const KernelCall& call) {
  write_rows(call, []<class T>(const Rows& rows, const T* updates, T* y) {
    for (std::int64_t o = 0; o < rows.outer; ++o)
      for (std::int64_t i = 0; i < rows.indices.size(); ++i, updates += rows.inner)
        if (const std::int64_t at = rows[i]; at >= 0)
          std::copy_n(updates, rows.inner, y + (o * rows.v.extent + at) * rows.inner);
  });
}

void scatter_add_kernel(const KernelCall& call) {
  write_rows(call, [workspace = call.workspace]<class T>(const Rows& rows, const T* updates, T* y) {
    add_rows(rows, updates, y, workspace);
  });
}

// ---- gradients ----

/// Operands dy and indices; the result is that of the updates.
std::string updates_rule(const Call& call) { return rule_of_rows(call, "^"); }

/// Whether a later index is the same as index i.
bool is_overwritten(const Rows& rows, std::int64_t i) {
  for (std::int64_t later = i + 1; later < rows.indices.size(); ++later)
    if (rows.indices[later] == rows.indices[i]) return true;
  return false;
}

void updates_kernel(const KernelCall& call) {
  const Rows rows(call, call.operands[0], dim_of_kernel(call, call.operands[0]), call.operands[1]);
  check_range(call, rows);
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const dy = call.operands[0].as<T>().data();
    T* const to = call.results[0].as<T>().data();
    for (std::int64_t i = 0; i < rows.indices.size(); ++i) {
      const std::int64_t at = is_overwritten(rows, i) ? -1 : rows[i];
      for (std::int64_t o = 0; o < rows.outer; ++o) {
        T* const row = to + (o * rows.indices.size() + i) * rows.inner;
        if (at < 0)
          std::fill_n(row, rows.inner, T(0));
        else
          std::copy_n(dy + (o * rows.v.extent + at) * rows.inner, rows.inner, row);
      }
    }
  });
}

std::vector<ValueId> scatter_gradient(Gradient& g) {
  const Type updates = g.type(g.in(2));
  const ValueId none = g.call(
      "fill", {}, {{"shape", updates.shape}, {"value", 0.0}, {"dtype", std::string(name_of(updates.dtype))}});
  return {g.call("scatter", {g.dy(), g.in(1), none}, g.attributes()),
          {},
          g.call("scatter_updates_grad", {g.dy(), g.in(1)}, g.attributes())};
}

std::vector<ValueId> scatter_add_gradient(Gradient& g) {
  return {g.dy(), {}, g.call("gather", {g.dy(), g.in(1)}, g.attributes())};
}

constexpr const char* last_of_equal = R"(
def is_last(indices):
    """No later index is the same."""
    flat = indices.reshape(-1)
    return ~(flat.unsqueeze(1) == flat.unsqueeze(0)).triu(1).any(1)
)";

constexpr const char* last_of_equal_in_jax = R"(
def is_last(indices):
    """No later index is the same."""
    flat = indices.reshape(-1)
    return ~jnp.triu(flat[:, None] == flat, 1).any(1)
)";

}  // namespace

std::vector<OpDef> scatter() {
  return {{.name = "scatter",
           .doc = "y = x with x[p.., indices[i..], e..] = updates[p.., i.., e..]; of equal indices the "
                  "last counts",
           .attributes = {"dim"},
           .defaults = {{"dim", std::int64_t{0}}},
           .rule_for = scatter_rule,
           .linear = "{0,2}",
           .infer = infer_scatter,
           .gradient = scatter_gradient,
           .kernel = scatter_kernel,
           .samples = {"f32[12,4], i32[6]<2, f32[6,4]", "f32[4,6,2], i64[2]<6, f32[4,2,2] (dim=1)"},
           .overwrites = {0},
           .torch = {.line = "scatter({0}, {1}, {2}, {dim}, {v.offset})",
                     .functions = std::string(own_rows) + last_of_equal + R"(
def scatter(x, indices, updates, dim, first):
    """Rows that are not written here go to one more, which is cut off."""
    dim %= x.dim()
    count = x.shape[dim]
    at, is_own = own_rows(indices, first, count)
    at = torch.where(is_own & is_last(indices), at, torch.full_like(at, count))
    rows = updates.reshape(x.shape[:dim] + (-1,) + x.shape[dim + 1 :])
    y = torch.cat([x, torch.zeros_like(rows.narrow(dim, 0, 1))], dim)
    return y.index_copy(dim, at, rows).narrow(dim, 0, count)
)"},
           .jax = {.functions = std::string(own_rows_in_jax) + last_of_equal_in_jax + R"(
def scatter(x, indices, updates, dim, first):
    """Rows that are not written here are dropped."""
    dim %= x.ndim
    own = jnp.where(is_last(indices), indices.reshape(-1), -1)
    rows = updates.reshape(x.shape[:dim] + (-1,) + x.shape[dim + 1 :])
    return x.at[at_rows(own, first, x.shape[dim], dim)].set(rows, mode="drop")
)"}},
          {.name = "scatter_updates_grad",
           .doc = "the gradient of scatter's updates: dy[p.., indices[i..], e..], or 0 where a later "
                  "index is the same",
           .attributes = {"dim"},
           .defaults = {{"dim", std::int64_t{0}}},
           .rule_for = updates_rule,
           .linear = "{0}",
           .infer = infer_rows,
           .kernel = updates_kernel,
           .samples = {"f32[12,4], i32[6]<2", "f32[4,6,2], i64[4]<2 (dim=1)"},
           .torch = {.line = "scatter_updates_grad({0}, {1}, {dim}, {v.offset})",
                     .functions = std::string(own_rows) + last_of_equal + R"(
def scatter_updates_grad(dy, indices, dim, first):
    dim %= dy.dim()
    rows = gather(dy, indices.reshape(-1), dim, first)
    rows = rows * is_last(indices).reshape([-1] + [1] * (dy.dim() - dim - 1)).to(dy.dtype)
    return rows.reshape(dy.shape[:dim] + indices.shape + dy.shape[dim + 1 :])
)"},
           .jax = {.functions = std::string(own_rows_in_jax) + last_of_equal_in_jax + R"(
def scatter_updates_grad(dy, indices, dim, first):
    dim %= dy.ndim
    rows = gather(dy, indices.reshape(-1), dim, first)
    rows = rows * is_last(indices).reshape((-1,) + (1,) * (dy.ndim - dim - 1)).astype(dy.dtype)
    return rows.reshape(dy.shape[:dim] + indices.shape + dy.shape[dim + 1 :])
)"}},
          {.name = "scatter_add",
           .doc = "y = x with updates[p.., i.., e..] added to x[p.., indices[i..], e..]",
           .attributes = {"dim"},
           .defaults = {{"dim", std::int64_t{0}}},
           .rule_for = scatter_rule,
           .linear = "{0,2}",
           .infer = infer_scatter,
           .gradient = scatter_add_gradient,
           .kernel = scatter_add_kernel,
           .workspace =
               [](const KernelCall& call) {
                 return bytes_to_add_rows(call, call.results[0].dtype, call.operands[1]);
               },
           .samples = {"f32[12,4], i32[6]<12, f32[6,4]", "f32[4,6,2], i64[2]<6, f32[4,2,2] (dim=1)"},
           .overwrites = {0},
           .torch = {.line = "scatter_add({0}, {1}, {2}, {dim}, {v.offset})",
                     .functions = std::string(own_rows) + R"(
def scatter_add(x, indices, updates, dim, first):
    dim %= x.dim()
    at, is_own = own_rows(indices, first, x.shape[dim])
    rows = wide(updates) if x.is_floating_point() else updates
    rows = rows.reshape(x.shape[:dim] + (-1,) + x.shape[dim + 1 :])
    rows = rows * is_own.reshape([-1] + [1] * (x.dim() - dim - 1)).to(rows.dtype)
    return x.to(rows.dtype).index_add(dim, at, rows).to(x.dtype)
)"},
           .jax = {.functions = std::string(own_rows_in_jax) + R"(
def scatter_add(x, indices, updates, dim, first):
    dim %= x.ndim
    rows = wide(updates) if jnp.issubdtype(x.dtype, jnp.floating) else updates
    rows = rows.reshape(x.shape[:dim] + (-1,) + x.shape[dim + 1 :])
    at = at_rows(indices, first, x.shape[dim], dim)
    return x.astype(rows.dtype).at[at].add(rows, mode="drop").astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
