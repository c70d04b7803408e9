// Batched matrix product: y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n].
//
// `transpose_a` / `transpose_b` say that the operand stands as [..., k, m] / [..., n, k]. Batch dims are
// equal, or b has none: then it is shared by the whole batch.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/op.h"

namespace shardwright::ops {
namespace {

std::string rule(const Call& call) {
  const bool ta = call.attributes.flag("transpose_a");
  const bool tb = call.attributes.flag("transpose_b");
  for (const Type& t : call.operands)
    if (t.shape.size() < 2) throw error("operands need at least 2 dims but one is {}", to_text(t));
  const bool shares_b = call.operands.size() == 2 && call.operands[1].shape.size() == 2;
  return fmt::format("... {}, {}{} -> ... m n", ta ? "k+ m" : "m k+", shares_b ? "" : "... ",
                     tb ? "n k+" : "k+ n");
}

/// k is the same in both, and so are the batch dims, unless b has none.
bool fits(const Call& call) {
  const Shape &a = call.operands[0].shape, &b = call.operands[1].shape;
  if (a.size() < 2 || b.size() < 2) return false;
  const std::int64_t k = a[a.size() - (call.attributes.flag("transpose_a") ? 2 : 1)];
  return k == b[b.size() - (call.attributes.flag("transpose_b") ? 1 : 2)] &&
         (b.size() == 2 || std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2));
}

/// Told without the rule where all is well: graphs have many products.
std::vector<Type> infer(const Call& call) {
  if (call.operands.size() != 2) throw error("has {} operands but takes 2", call.operands.size());
  if (call.operands[0].dtype != call.operands[1].dtype)
    throw error("operands are {} and {}; cast one", to_text(call.operands[0]), to_text(call.operands[1]));
  const Shape &a = call.operands[0].shape, &b = call.operands[1].shape;
  if (!fits(call)) bind_rule(rule(call), "", std::vector{a, b}, {});  // says what does not
  Shape y = a;
  y[a.size() - 2] = a[a.size() - (call.attributes.flag("transpose_a") ? 1 : 2)];
  y.back() = b[b.size() - (call.attributes.flag("transpose_b") ? 2 : 1)];
  return {{call.operands[0].dtype, std::move(y)}};
}

double flops(const Rule& r) {
  double n = 2;
  for (const LoopDim& l : r.loops) n *= static_cast<double>(l.size);
  return n;
}

/// With A' = a or its transpose: dA' = dy B'^T and dB' = A'^T dy, each written so that it comes out as
/// stored.
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
  const ValueId da = ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
  const std::size_t batch = g.type(a).shape.size() - 2;
  if (batch == 0 || g.type(b).shape.size() > 2)
    return {da, tb ? product(dy, a, true, ta) : product(a, dy, !ta, false)};
  // b is shared by the batch, so its gradient sums over the batch dims too.
  if (ta) throw error("a batched product with a shared b has no gradient with transpose_a=true");
  return {da, tb ? g.call("outer_product", {dy, a}) : g.call("outer_product", {a, dy})};
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
  const std::int64_t batch = m * n == 0 ? 0 : call.results[0].size() / (m * n);
  const std::int64_t b_step = bs.size() == 2 ? 0 : k * n;
  visit(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto a = call.operands[0].as<T>();
    const auto b = call.operands[1].as<T>();
    const auto y = call.results[0].as<T>();
    for (std::int64_t q = 0; q < batch; ++q)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          Compute<T> sum{};
          for (std::int64_t l = 0; l < k; ++l) {
            const std::int64_t ai = q * m * k + (ta ? l * m + i : i * k + l);
            const std::int64_t bi = q * b_step + (tb ? j * k + l : l * n + j);
            sum += static_cast<Compute<T>>(a[static_cast<std::size_t>(ai)]) *
                   static_cast<Compute<T>>(b[static_cast<std::size_t>(bi)]);
          }
          y[static_cast<std::size_t>(q * m * n + i * n + j)] = static_cast<T>(sum);
        }
  });
}

}  // namespace

std::vector<OpDef> matmul() {
  return {
      {
          .name = "matmul",
          .doc = "y[..., m, n] = sum_k a[..., m, k] b[..., k, n]",
          .attributes = {"transpose_a", "transpose_b"},
          .rule_for = rule,
          .linear = "{0} {1}",
          .infer = infer,
          .flops = flops,
          .gradient = gradient,
          .kernel = kernel,
          .samples = {"f32[4,6], f32[6,12]", "f32[6,4], f32[6,12] (transpose_a=true)",
                      "f32[4,6], f32[12,6] (transpose_b=true)",
                      "f32[6,4], f32[12,6] (transpose_a=true, transpose_b=true)", "f32[2,4,6], f32[2,6,4]",
                      "f32[2,4,6], f32[2,4,6] (transpose_b=true)", "f32[2,6,4], f32[4,6]"},
          .is_made_by_rows = true,
      },
      {
          .name = "outer_product",
          .doc = "y[k, n] = sum over all leading dims of a[..., k] b[..., n]: a weight's gradient",
          .rule_for = outer_rule,
          .linear = "{0} {1}",
          .infer = infer_outer,
          .flops = flops,
          .gradient = outer_gradient,
          .kernel = outer_kernel,
          .samples = {"f32[2,6,4], f32[2,6,12]", "f32[6,4], f32[6,2]"},
          .is_made_by_rows = true,
      }};
}

}  // namespace shardwright::ops
