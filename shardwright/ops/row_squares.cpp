// The sum of squares of a gradient that is rows of a table: each row with the sum of what came for it (ops/row_updates.h).

#include "shardwright/base/text.h"
#include "shardwright/ops/bags.h"
#include "shardwright/ops/row_updates.h"

namespace shardwright::ops {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 40;  // of a table; of several numbers count on

Shape table_of_squares(const Call& call) {
  check_count(call, 2);
  check_floating(call.operands[0].dtype);
  check_integer(call.operands[1].dtype);
  const std::int64_t rows = call.attributes.integer("rows", 0);
  if (rows < 1 || rows > most_rows)
    throw error("rows is {} but must be from 1 to {}; write for example (rows=10)", rows, most_rows);
  const Shape &x = call.operands[0].shape, &ids = call.operands[1].shape;
  const bool has_bags = is_bag(call.attributes), is_stacked = call.attributes.flag("stacked");
  const std::size_t before = ids.size() - (has_bags && !ids.empty() ? 1 : 0);
  if (x.size() < before || (has_bags && (x.size() != ids.size() || ids.empty())) ||
      (is_stacked && ids.size() < 2) ||
      !std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(before), x.begin()))
    throw error("rows are {} at ids {}; they should be equal but for what a row or a bag has",
                to_text(call.operands[0]), to_text(call.operands[1]));
  Shape table;
  if (is_stacked) table.push_back(ids[ids.size() - 2]);
  table.push_back(rows);
  table.insert(table.end(), x.begin() + static_cast<std::ptrdiff_t>(before), x.end());
  return table;
}

/// Tables, and what a row has, may be split: their squares add up.
std::string squares_rule(const Call& call) {
  const RowNames n = row_names(table_of_squares(call), call.operands[1].shape, is_bag(call.attributes));
  const auto summed = [](const std::string& text) {
    std::string out;
    for (const std::string_view name : split(std::string_view(text), ' '))
      out +=
          fmt::format("{}{}{}", out.empty() ? "" : " ", name, name.ends_with('^') || name == "." ? "" : "+");
    return out;
  };
  return fmt::format("{}, {} -> .", summed(n.rows), summed(n.ids));
}

std::vector<Type> infer_squares(const Call& call) {
  table_of_squares(call);
  return {{call.operands[0].dtype == DType::f64 ? DType::f64 : DType::f32, {}}};
}

Bags bags_of_squares(const KernelCall& call) {
  const TensorView& ids = call.operands[1];
  const std::span<const std::int64_t> of_ids = ids.shape;
  const std::int64_t rows = call.attributes.integer("rows", 0);
  const bool has_bags = is_bag(call.attributes);
  const std::int64_t count = has_bags ? element_count(of_ids.first(of_ids.size() - 1)) : ids.size();
  return {.v = {.offset = 0, .extent = rows, .size = rows},
          .tables = call.attributes.flag("stacked") ? of_ids[of_ids.size() - 2] : 1,
          .inner = count > 0 ? call.operands[0].size() / count : 0,
          .count = count,
          .hot = has_bags ? of_ids.back() : 1,
          .is_mean = call.attributes.text("bag", "none") == "mean",
          .ids = Integers(ids)};
}

std::int64_t workspace_of_squares(const KernelCall& call) {
  return bytes_before_row(call.operands[1]) +
         bags_of_squares(call).inner * static_cast<std::int64_t>(sizeof(double));
}

void squares_kernel(const KernelCall& call) {
  const Bags bags = bags_of_squares(call);
  bags.check_range(call, 1);
  double squares = 0;
  visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    auto* const sum = reinterpret_cast<double*>(call.workspace + bytes_before_row(call.operands[1]));
    for_each_row(sorted_addends(bags, call.workspace), [&](std::int64_t, std::span<const Addend> addends) {
      sum_addends(bags, addends, x, sum);
      for (std::int64_t e = 0; e < bags.inner; ++e) {
        squares += sum[e] * sum[e];
      }
    });
  });
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    call.results[0].as<T>()[0] = static_cast<T>(static_cast<Compute<T>>(squares));
  });
}

double flops(const Rule& rule) {
  double n = 1;
  for (const LoopDim& l : rule.loops) n *= static_cast<double>(l.size);
  return n;
}

}  // namespace

std::vector<OpDef> row_squares() {
  return {{.name = "row_squares",
           .doc = "the sum of squares of a gradient of `rows` rows that is made of x at ids, in f32 at least",
           .attributes = {"bag", "rows", "stacked"},
           .defaults = {{"bag", std::string("none")}, {"stacked", false}},
           .rule_for = squares_rule,
           .infer = infer_squares,
           .flops = flops,
           .kernel = squares_kernel,
           .workspace = workspace_of_squares,
           .samples = {"f32[6,4], i32[6]<2 (rows=2)", "f32[6,4], i32[6,2]<3 (bag=sum, rows=3)",
                       "f32[6,2,4], i64[6,2,3]<3 (bag=mean, rows=3, stacked=true)"},
           .torch = {.line = "row_squares({0}, {1}, {bag}, {rows}, {stacked})", .functions = R"(
def row_squares(rows, ids, bag, count, stacked):
    tables = ids.shape[-2] if stacked else 1
    of = ids.reshape(-1, tables, ids.shape[-1] if bag != "none" else 1).long()
    rows = wide(rows).reshape(of.shape[:2] + (1, -1))
    rows = rows / (of >= 0).sum(-1).clamp(min=1).reshape(of.shape[:2] + (1, 1)).to(rows.dtype) if bag == "mean" else rows
    at = of + torch.arange(tables, device=ids.device).reshape(1, -1, 1) * count
    at, place = torch.unique(at[of >= 0], return_inverse=True)
    sums = torch.zeros((len(at), rows.shape[-1]), dtype=rows.dtype, device=rows.device)
    return (sums.index_add(0, place, rows.expand(of.shape + rows.shape[-1:])[of >= 0]) ** 2).sum()
)"},
           .jax = {.functions = R"(
def row_squares(rows, ids, bag, count, stacked):
    tables = ids.shape[-2] if stacked else 1
    of = ids.reshape(-1, tables, ids.shape[-1] if bag != "none" else 1).astype(jnp.int64)
    rows = wide(rows).reshape(of.shape[:2] + (1, -1))
    rows = rows / jnp.maximum((of >= 0).sum(-1), 1).reshape(of.shape[:2] + (1, 1)).astype(rows.dtype) if bag == "mean" else rows
    rows = jnp.where((of >= 0)[..., None], rows, jnp.zeros((), rows.dtype)).reshape(-1, rows.shape[-1])
    at = jnp.where(of >= 0, of + jnp.arange(tables).reshape(1, -1, 1) * count, tables * count).reshape(-1)
    at, place = jnp.unique(at, return_inverse=True, size=at.size, fill_value=tables * count)
    return (jnp.zeros((at.size, rows.shape[-1]), rows.dtype).at[place.reshape(-1)].add(rows) ** 2).sum()
)"}}};
}

}  // namespace shardwright::ops

namespace shardwright {

ValueId squares_of_rows(Builder& builder, const RowGradient& gradient, const Shape& table) {
  const bool is_stacked = gradient.bag != "none" && table.size() > 2;
  return builder.call("row_squares", {gradient.rows, gradient.ids},
                      {{"bag", gradient.bag}, {"rows", table[is_stacked ? 1 : 0]}, {"stacked", is_stacked}});
}

}  // namespace shardwright
