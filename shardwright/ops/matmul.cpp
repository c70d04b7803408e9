// Batched matrix product: y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n].
//
// `transpose_a` / `transpose_b` say that the operand stands as [..., k, m] / [..., n, k]. Batch dims broadcast as in
// numpy: an operand that lacks one, or has a 1 there, is shared by the batch, and its gradient is the sum over it.

#include <algorithm>
#include <numeric>
#include <span>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/product_batch.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// The batch dims of the result.
Shape batch_of(const Call& call) {
  const std::span<const std::int64_t> a = call.operands[0].shape, b = call.operands[1].shape;
  auto batch = broadcast_shape(a.first(a.size() - 2), b.first(b.size() - 2));
  if (!batch)
    throw error("the batches of {} and {} do not broadcast: right-aligned, dims must be equal or 1",
                to_text(call.operands[0]), to_text(call.operands[1]));
  return std::move(*batch);
}

/// Told without the rule: graphs have many products.
std::vector<Type> infer(const Call& call) {
  check_count(call, 2);
  if (call.operands[0].dtype != call.operands[1].dtype)
    throw error("operands are {} and {}; cast one", to_text(call.operands[0]), to_text(call.operands[1]));
  for (const Type& t : call.operands)
    if (t.shape.size() < 2) throw error("operands need at least 2 dims but one is {}", to_text(t));
  const Shape &a = call.operands[0].shape, &b = call.operands[1].shape;
  const bool ta = call.attributes.flag("transpose_a"), tb = call.attributes.flag("transpose_b");
  const std::int64_t k = a[a.size() - (ta ? 2 : 1)], k_of_b = b[b.size() - (tb ? 1 : 2)];
  if (k != k_of_b) throw error("dim k is {} in operand 0 but {} in operand 1", k, k_of_b);
  Shape y = batch_of(call);
  y.push_back(a[a.size() - (ta ? 1 : 2)]);
  y.push_back(b[b.size() - (tb ? 2 : 1)]);
  return {{call.operands[0].dtype, std::move(y)}};
}

/// An operand's dims: of `batch` those that it has, 1 where it is stretched, and those of its matrices.
std::string side(const Shape& shape, const Shape& batch, std::string_view matrix) {
  std::string out;
  const std::size_t own = shape.size() - 2, extra = batch.size() - own;
  for (std::size_t d = 0; d < own; ++d)
    out += (shape[d] == batch[extra + d] ? loop_name(extra + d) : "1") + " ";
  return out.append(matrix);
}

std::string rule(const Call& call) {
  infer(call);  // says what does not fit
  const bool ta = call.attributes.flag("transpose_a"), tb = call.attributes.flag("transpose_b");
  const Shape batch = batch_of(call);
  return fmt::format("{}, {} -> ... m n", side(call.operands[0].shape, batch, ta ? "k+ m" : "m k+"),
                     side(call.operands[1].shape, batch, tb ? "n k+" : "k+ n"));
}

double flops(const Rule& r) {
  double n = 2;
  for (const LoopDim& l : r.loops) n *= static_cast<double>(l.size);
  return n;
}

ValueId transposed(Gradient& g, ValueId matrices) {
  std::vector<std::int64_t> dims(g.type(matrices).shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims.back(), dims[dims.size() - 2]);
  return g.call("transpose", {matrices}, {{"dims", dims}});
}

/// With A' = a or its transpose: dA' = dy B'^T and dB' = A'^T dy, each written so that it comes out as
/// stored, and summed over the batch dims along which its operand is stretched.
std::vector<ValueId> gradient(Gradient& g) {
  const bool ta = g.attributes().flag("transpose_a");
  const bool tb = g.attributes().flag("transpose_b");
  const auto product = [&](ValueId x, ValueId y, bool tx, bool ty) {
    Attributes attributes;
    if (tx) attributes.set("transpose_a", true);
    if (ty) attributes.set("transpose_b", true);
    return g.call("matmul", {x, y}, std::move(attributes));
  };
  const ValueId a = g.in(0), b = g.in(1), dy = g.dy();
  const ValueId da =
      unbroadcast(g, ta ? product(b, dy, tb, true) : product(dy, b, false, !tb), g.type(a).shape);
  if (g.type(a).shape.size() == 2 || g.type(b).shape.size() > 2)
    return {da, unbroadcast(g, tb ? product(dy, a, true, ta) : product(a, dy, !ta, false), g.type(b).shape)};
  // b is one matrix, so that its gradient is one product too, whose sum runs over the batch as well.
  const ValueId rows = ta ? transposed(g, a) : a;
  return {da, tb ? g.call("outer_product", {dy, rows}) : g.call("outer_product", {rows, dy})};
}

std::string outer_rule(const Call& call) {
  std::string leading;
  for (std::size_t d = 0; d + 1 < call.operands[0].shape.size(); ++d) leading += fmt::format("i{}+ ", d);
  return fmt::format("{}k, {}n -> k n", leading, leading);
}

std::vector<Type> infer_outer(const Call& call) {
  if (call.operands.size() != 2) throw error("has {} operands but takes 2", call.operands.size());
  const Shape &a = call.operands[0].shape, &b = call.operands[1].shape;
  const bool is_fit = !a.empty() && !b.empty() && std::equal(a.begin(), a.end() - 1, b.begin(), b.end() - 1);
  if (!is_fit) bind_rule(outer_rule(call), "", std::vector{a, b}, {});  // says what does not fit
  return {{call.operands[0].dtype, {a.back(), b.back()}}};
}

std::vector<ValueId> outer_gradient(Gradient& g) {  // y = sum a^T b: da = b dy^T, db = a dy
  return {g.call("matmul", {g.in(1), g.dy()}, {{"transpose_b", true}}), g.call("matmul", {g.in(0), g.dy()})};
}

void outer_kernel(const KernelCall& call) {
  const std::int64_t k = call.operands[0].shape.back(), n = call.operands[1].shape.back();
  const std::int64_t rows = k == 0 ? 0 : call.operands[0].size() / k;
  visit(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto a = call.operands[0].as<T>();
    const auto b = call.operands[1].as<T>();
    const auto y = call.results[0].as<T>();
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        Compute<T> sum{};
        for (std::int64_t r = 0; r < rows; ++r)
          sum += static_cast<Compute<T>>(a[static_cast<std::size_t>(r * k + i)]) *
                 static_cast<Compute<T>>(b[static_cast<std::size_t>(r * n + j)]);
        y[static_cast<std::size_t>(i * n + j)] = static_cast<T>(sum);
      }
  });
}

/// Plain loops, accumulated in the compute type; the order of the sum over k is that of memory.
void kernel(const KernelCall& call) {
  const bool ta = call.attributes.flag("transpose_a");
  const bool tb = call.attributes.flag("transpose_b");
  const Shape& as = call.operands[0].shape;
  const Shape& bs = call.operands[1].shape;
  const std::int64_t m = as[as.size() - (ta ? 1 : 2)], k = as[as.size() - (ta ? 2 : 1)];
  const std::int64_t n = bs[bs.size() - (tb ? 2 : 1)];
  const Walk<3> batch = product_batch(call.results[0].shape, as, bs);
  visit(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto a = call.operands[0].as<T>();
    const auto b = call.operands[1].as<T>();
    const auto y = call.results[0].as<T>();
    for_each_point(batch.passes(), [&](const auto& at) {
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          Compute<T> sum{};
          for (std::int64_t l = 0; l < k; ++l) {
            const std::int64_t ai = at[1] * m * k + (ta ? l * m + i : i * k + l);
            const std::int64_t bi = at[2] * k * n + (tb ? j * k + l : l * n + j);
            sum += static_cast<Compute<T>>(a[static_cast<std::size_t>(ai)]) *
                   static_cast<Compute<T>>(b[static_cast<std::size_t>(bi)]);
          }
          y[static_cast<std::size_t>(at[0] * m * n + i * n + j)] = static_cast<T>(sum);
        }
    });
  });
}

}  // namespace

std::vector<OpDef> matmul() {
  return {
      {.name = "matmul",
       .doc = "y[..., m, n] = sum_k a[..., m, k] b[..., k, n]",
       .attributes = {"transpose_a", "transpose_b"},
       .defaults = {{"transpose_a", false}, {"transpose_b", false}},
       .rule_for = rule,
       .linear = "{0} {1}",
       .infer = infer,
       .flops = flops,
       .gradient = gradient,
       .kernel = kernel,
       .samples = {"f32[4,6], f32[6,12]", "f32[6,4], f32[6,12] (transpose_a=true)",
                   "f32[4,6], f32[12,6] (transpose_b=true)",
                   "f32[6,4], f32[12,6] (transpose_a=true, transpose_b=true)", "f32[2,4,6], f32[2,6,4]",
                   "f32[2,4,6], f32[2,4,6] (transpose_b=true)", "f32[2,6,4], f32[4,6]",
                   "f32[2,6,4], f32[6,12] (transpose_a=true)",
                   "f32[6,2,4], f32[12,2] (transpose_a=true, transpose_b=true)", "f32[2,1,4,6], f32[1,3,6,2]",
                   "f32[4,6], f32[2,6,4]", "f32[6,4], f32[2,1,12,6] (transpose_a=true, transpose_b=true)",
                   "f32[2,3,6,4], f32[3,6,2] (transpose_a=true)", "f32[2,6,4], f32[1,4,6]"},
       .is_made_by_rows = true,
       .torch = {.line_for =
                     [](const Call& c) {
                       return fmt::format("{{0}}{} @ {{1}}{}", c.attributes.flag("transpose_a") ? ".mT" : "",
                                          c.attributes.flag("transpose_b") ? ".mT" : "");
                     }}},
      {.name = "outer_product",
       .doc = "y[k, n] = sum over all leading dims of a[..., k] b[..., n]: a weight's gradient",
       .rule_for = outer_rule,
       .linear = "{0} {1}",
       .infer = infer_outer,
       .flops = flops,
       .gradient = outer_gradient,
       .kernel = outer_kernel,
       .samples = {"f32[2,6,4], f32[2,6,12]", "f32[6,4], f32[6,2]"},
       .is_made_by_rows = true,
       .torch = {.line = "outer_product({0}, {1})", .functions = R"(
def outer_product(a, b):
    """The sum over all leading dims of a^T b."""
    return a.reshape(-1, a.shape[-1]).mT @ b.reshape(-1, b.shape[-1])
)"}}};
}

}  // namespace shardwright::ops
