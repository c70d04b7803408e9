// Rows of tables by bags of ids: the embeddings of recommenders, whose columns name any number of rows each.
//
//   lookup        y[b.., t.., e] = sum over h of table[t.., x[b.., t.., h], e], or the mean
//   lookup_grad   y[t.., v, e]   = sum of dy[b.., t.., e] over all b, h with x[b.., t.., h] = v
//
// A table is [v, e]; [t, v, e] are t tables, one for each column. Whole tables (t), rows (v) or columns (e) may be split, and
// the batch. An id below 0 is none: bags of different lengths are filled up with it, and a mean does not count it.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/bags.h"

namespace shardwright::ops {
namespace {

/// The dims of tables, of bags and of their ids as text. A mean must know all ids of a bag.
struct BagNames {
  std::string tables, bags, ids;
};

BagNames bag_names(std::size_t table_rank, std::size_t id_rank, bool is_mean) {
  std::vector<std::string> before;
  for (std::size_t d = 0; d + table_rank - 1 < id_rank; ++d) before.push_back(fmt::format("b{}", d));
  std::vector<std::string> tables, bags = before;
  for (std::size_t d = 0; d + 2 < table_rank; ++d) {
    tables.push_back(fmt::format("t{}", d));
    bags.push_back(tables.back());
  }
  std::vector<std::string> ids = bags;
  tables.emplace_back("v+");
  tables.emplace_back("e");
  bags.emplace_back("e");
  ids.emplace_back(is_mean ? "h^" : "h+");
  return {tensor_text(tables), tensor_text(bags), tensor_text(ids)};
}

void check_ranks(const Shape& tables, const Shape& ids) {
  if (tables.size() != 2 && tables.size() != 3)
    throw error("the table is {}; it should be [rows, features], or [tables, rows, features]",
                to_text(tables));
  if (ids.size() + 1 < tables.size())
    throw error("the ids are {} but the tables {}; they should be [..., {}ids of a bag]", to_text(ids),
                to_text(tables), tables.size() == 3 ? "tables, " : "");
  if (tables.size() == 3 && ids[ids.size() - 2] != tables[0])
    throw error("the ids {} are of {} tables but there are {}", to_text(ids), ids[ids.size() - 2], tables[0]);
}

std::string lookup_rule(const Call& call) {
  check_count(call, 2);
  check_ranks(call.operands[0].shape, call.operands[1].shape);
  const BagNames n =
      bag_names(call.operands[0].shape.size(), call.operands[1].shape.size(), call.attributes.flag("mean"));
  return fmt::format("{}, {} -> {}", n.tables, n.ids, n.bags);
}

std::vector<Type> infer_lookup(const Call& call) {
  check_count(call, 2);
  const Type &tables = call.operands[0], &ids = call.operands[1];
  check_floating(tables.dtype);
  check_integer(ids.dtype);
  check_ranks(tables.shape, ids.shape);
  call.attributes.flag("mean");  // throws if it is none
  Shape shape = ids.shape;
  shape.back() = tables.shape.back();
  return {{tables.dtype, std::move(shape)}};
}

/// The shape of the tables of a gradient, of which the call says how many (`tables`, 0: one without a dim for it) and their rows.
Shape shape_of_tables(const Call& call) {
  check_count(call, 2);
  const Type &dy = call.operands[0], &ids = call.operands[1];
  check_floating(dy.dtype);
  check_integer(ids.dtype);
  const std::int64_t rows = call.attributes.integer("rows", 0);
  if (rows < 1) throw error("rows is {} but must be at least 1; write for example (rows=10)", rows);
  call.attributes.flag("mean");
  if (ids.shape.empty() || dy.shape.size() != ids.shape.size() ||
      !std::equal(dy.shape.begin(), dy.shape.end() - 1, ids.shape.begin()))
    throw error("dy is {} and the ids {}; they should be equal but for their last dims", to_text(dy),
                to_text(ids));
  Shape shape;
  if (call.attributes.flag("stacked")) {
    if (ids.shape.size() < 2)
      throw error("the ids are {}; of stacked tables they are [..., tables, ids]", to_text(ids));
    shape.push_back(ids.shape[ids.shape.size() - 2]);
  }
  shape.push_back(rows);
  shape.push_back(dy.shape.back());
  return shape;
}

std::string grad_rule(const Call& call) {
  const Shape tables = shape_of_tables(call);
  const BagNames n = bag_names(tables.size(), call.operands[1].shape.size(), call.attributes.flag("mean"));
  std::string of_tables = n.tables;
  of_tables.erase(of_tables.find('+'), 1);
  std::string bags, ids;
  for (const std::string_view name : split(std::string_view(n.bags), ' '))
    bags += fmt::format("{}{}{}", bags.empty() ? "" : " ", name, name.starts_with('b') ? "+" : "");
  for (const std::string_view name : split(std::string_view(n.ids), ' '))
    ids += fmt::format("{}{}{}", ids.empty() ? "" : " ", name, name.starts_with('b') ? "+" : "");
  return fmt::format("{}, {} -> {}", bags, ids, of_tables);
}

/// Of tables that lie as `tables`; the ids are operand 1.
Bags bags_of(const KernelCall& call, const TensorView& tables) {
  const TensorView& ids = call.operands[1];
  const std::span<const std::int64_t> shape = tables.shape, of_ids = ids.shape;
  return {.v = call.loop("v"),
          .tables = element_count(shape.first(shape.size() - 2)),
          .inner = shape.back(),
          .count = element_count(of_ids.first(of_ids.size() - 1)),
          .hot = of_ids.back(),
          .is_mean = call.attributes.flag("mean"),
          .ids = Integers(ids)};
}

void lookup_kernel(const KernelCall& call) {
  const Bags bags = bags_of(call, call.operands[0]);
  bags.check_range(call, 1);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const tables = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t g = 0; g < bags.count; ++g, y += bags.inner)
      sum_rows<T>(
          bags.hot, bags.inner,
          [&bags, tables, g](std::int64_t k) {
            const std::int64_t row = bags.row(g, k);
            return row < 0 ? nullptr : tables + row * bags.inner;
          },
          [share = bags.share(g)](std::int64_t) { return share; }, y);
  });
}

void grad_kernel(const KernelCall& call) {
  const Bags bags = bags_of(call, call.results[0]);
  bags.check_range(call, 1);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto y = call.results[0].as<T>();
    std::fill(y.begin(), y.end(), T(0));
    for_each_row(sorted_addends(bags, call.workspace),
                 [&](std::int64_t row, std::span<const Addend> addends) {
                   sum_addends(bags, addends, static_cast<const T*>(call.operands[0].as<T>().data()),
                               y.data() + row * bags.inner);
                 });
  });
}

std::vector<ValueId> lookup_gradient(Gradient& g) {
  const Shape tables = g.type(g.in(0)).shape;
  return {g.call("lookup_grad", {g.dy(), g.in(1)},
                 {{"mean", g.attributes().flag("mean")},
                  {"rows", tables[tables.size() - 2]},
                  {"stacked", tables.size() == 3}}),
          {}};
}

std::vector<ValueId> grad_gradient(Gradient& g) {
  return {g.call("lookup", {g.dy(), g.in(1)}, {{"mean", g.attributes().flag("mean")}}), {}};
}

constexpr const char* in_torch = R"(
def bag_rows(ids, tables, first, count):
    """Of the bags of ids where they are among a rank's rows of all its tables, whether they are, and how many a bag has."""
    of = ids.reshape(-1, tables, ids.shape[-1]).long()
    at = of - first
    is_own = (of >= 0) & (at >= 0) & (at < count)
    of_table = torch.arange(tables, device=ids.device).reshape(1, -1, 1) * count
    return at.clamp(0, max(count - 1, 0)) + of_table, is_own, (of >= 0).sum(-1, keepdim=True).clamp(min=1)


def lookup(table, ids, first, mean):
    """Rows of other ranks are zeros."""
    flat = table.flatten(0, -2)
    at, is_own, present = bag_rows(ids, flat.shape[0] // table.shape[-2], first, table.shape[-2])
    rows = wide(flat.index_select(0, at.reshape(-1))).reshape(at.shape + table.shape[-1:])
    y = (rows * is_own.unsqueeze(-1).to(rows.dtype)).sum(2)
    y = y / present.to(y.dtype) if mean else y
    return y.reshape(ids.shape[:-1] + table.shape[-1:]).to(table.dtype)
)";

constexpr const char* in_jax = R"(
def bag_rows(ids, tables, first, count):
    """Of the bags of ids where they are among a rank's rows of all its tables, whether they are, and how many a bag has."""
    of = ids.reshape(-1, tables, ids.shape[-1]).astype(jnp.int64)
    at = of - first
    is_own = (of >= 0) & (at >= 0) & (at < count)
    at = jnp.clip(at, 0, max(count - 1, 0)) + jnp.arange(tables).reshape(1, -1, 1) * count
    return at, is_own, jnp.maximum((of >= 0).sum(-1, keepdims=True), 1)


def lookup(table, ids, first, mean):
    """Rows of other ranks are zeros."""
    flat = table.reshape(-1, table.shape[-1])
    at, is_own, present = bag_rows(ids, flat.shape[0] // table.shape[-2], first, table.shape[-2])
    rows = wide(jnp.take(flat, at, 0))
    y = jnp.where(is_own[..., None], rows, jnp.zeros((), rows.dtype)).sum(2)
    y = y / present.astype(y.dtype) if mean else y
    return y.reshape(ids.shape[:-1] + table.shape[-1:]).astype(table.dtype)
)";

}  // namespace

std::vector<OpDef> lookup() {
  return {{.name = "lookup",
           .doc = "y[b.., t.., e] = sum (mean=true: mean) over h of table[t.., x[b.., t.., h], e]; an id "
                  "below 0 is none",
           .attributes = {"mean"},
           .defaults = {{"mean", false}},
           .rule_for = lookup_rule,
           .linear = "{0}",
           .infer = infer_lookup,
           .flops = flops_of_rows,
           .gradient = lookup_gradient,
           .kernel = lookup_kernel,
           .samples = {"f32[12,4], i32[6,2]<12", "f32[6,12,4], i64[2,6,3]<12",
                       "f32[2,6,4], i32[6,2,2]<6 (mean=true)", "f32[6,4], i32[3]<6 (mean=true)"},
           .torch = {.line = "lookup({0}, {1}, {v.offset}, {mean})", .functions = in_torch},
           .jax = {.functions = in_jax}},
          {.name = "lookup_grad",
           .doc = "y[t.., v, e] = sum of dy[b.., t.., e] over b, h with x[b.., t.., h] = v; v runs to "
                  "`rows`; stacked=true: "
                  "with t",
           .attributes = {"mean", "rows", "stacked"},
           .defaults = {{"mean", false}, {"stacked", false}},
           .rule_for = grad_rule,
           .linear = "{0}",
           .infer =
               [](const Call& call) {
                 return std::vector<Type>{{call.operands[0].dtype, shape_of_tables(call)}};
               },
           .flops = flops_of_rows,
           .gradient = grad_gradient,
           .kernel = grad_kernel,
           .workspace = [](const KernelCall& call) { return bytes_of_addends(call.operands[1]); },
           .samples = {"f32[6,4], i32[6,2]<12 (rows=12)", "f32[2,6,4], i64[2,6,3]<12 (rows=12, stacked=true)",
                       "f32[6,2,4], i32[6,2,2]<6 (rows=6, stacked=true, mean=true)"},
           .torch = {.line = "lookup_grad({0}, {1}, {v.offset}, {mean}, {shape})",
                     .functions = std::string(in_torch) + R"(
def lookup_grad(dy, ids, first, mean, shape):
    """`dy` is added to the rows of tables that made it; rows of other ranks are theirs."""
    count, width = shape[-2:]
    at, is_own, present = bag_rows(ids, shape[0] if len(shape) == 3 else 1, first, count)
    rows = wide(dy).reshape(at.shape[:2] + (width,))
    rows = rows / present.to(rows.dtype) if mean else rows
    rows = rows.unsqueeze(2) * is_own.unsqueeze(-1).to(rows.dtype)
    y = torch.zeros((at.shape[1] * count, width), dtype=rows.dtype, device=rows.device)
    return y.index_add(0, at.reshape(-1), rows.reshape(-1, width)).reshape(shape).to(dy.dtype)
)"},
           .jax = {.functions = std::string(in_jax) + R"(
def lookup_grad(dy, ids, first, mean, shape):
    """`dy` is added to the rows of tables that made it; rows of other ranks are theirs."""
    count, width = shape[-2:]
    at, is_own, present = bag_rows(ids, shape[0] if len(shape) == 3 else 1, first, count)
    rows = wide(dy).reshape(at.shape[:2] + (width,))
    rows = rows / present.astype(rows.dtype) if mean else rows
    rows = jnp.where(is_own[..., None], rows[:, :, None], jnp.zeros((), rows.dtype)).reshape(-1, width)
    y = jnp.zeros((at.shape[1] * count, width), rows.dtype).at[at.reshape(-1)].add(rows)
    return y.reshape(shape).astype(dy.dtype)
)"}}};
}

}  // namespace shardwright::ops
