// Where along a dim the largest or smallest element is, as i64; the first of several. A NaN counts as both.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::size_t dim_in(const Attributes& attributes, const Shape& shape) {
  return dim_of(attributes.integer("dim", -1), shape);
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_number(call.operands[0].dtype);
  Shape shape = call.operands[0].shape;
  const std::size_t dim = dim_in(call.attributes, shape);
  if (shape[dim] == 0) throw error("dim {} of {} is empty", dim, to_text(call.operands[0]));
  shape[dim] = 1;
  if (!call.attributes.flag("keep")) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return {{DType::i64, std::move(shape)}};
}

std::string rule(const Call& call) {
  const Shape& shape = call.operands[0].shape;
  const std::size_t dim = dim_in(call.attributes, shape);
  std::vector<std::string> from, to;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    from.push_back(loop_name(d, d == dim ? "^" : ""));
    if (d != dim)
      to.push_back(loop_name(d));
    else if (call.attributes.flag("keep"))
      to.push_back("1");
  }
  return fmt::format("{} -> {}", tensor_text(from), tensor_text(to));
}

/// The index of the element that no later one is `better` than.
template <class T, class Better>
std::int64_t best(const T* x, std::int64_t length, std::int64_t step, Better better) {
  std::int64_t at = 0;
  auto value = static_cast<Compute<T>>(x[0]);
  for (std::int64_t i = 1; i < length; ++i) {
    const auto candidate = static_cast<Compute<T>>(x[i * step]);
    if (better(candidate, value) || (candidate != candidate && value == value)) {
      at = i;
      value = candidate;
    }
  }
  return at;
}

template <class Better>
void kernel(const KernelCall& call, Better better) {
  const TensorView& x = call.operands[0];
  const Lines lines(x.shape, dim_in(call.attributes, x.shape));
  const auto y = call.results[0].as<std::int64_t>();
  require(lines.outer * lines.inner == static_cast<std::int64_t>(y.size()), "argmax of {} to {}",
          to_text(x.shape), to_text(call.results[0].shape));
  visit_number(x.dtype, [&]<class T>(std::type_identity<T>) {
    const T* const from = x.as<T>().data();
    for (std::int64_t o = 0; o < lines.outer; ++o)
      for (std::int64_t i = 0; i < lines.inner; ++i)
        y[static_cast<std::size_t>(o * lines.inner + i)] =
            best(from + o * lines.length * lines.inner + i, lines.length, lines.inner, better);
  });
}

template <class Better>
OpDef position(std::string name, std::string doc, Better better) {
  std::string line = "torch." + name + "({0}, {dim}, keepdim={keep})";
  std::string in_jax = "jnp." + name + "({0}, {dim}, keepdims={keep}).astype({dtype})";
  return {.name = std::move(name),
          .doc = std::move(doc),
          .attributes = {"dim", "keep"},
          .defaults = {{"dim", std::int64_t{-1}}, {"keep", false}},
          .rule_for = rule,
          .infer = infer,
          .kernel = [better](const KernelCall& call) { kernel(call, better); },
          .samples = {"f32[4,6]", "f32[2,6,4] (dim=1)", "f32[6,4] (dim=0, keep=true)", "i32[4,6] (dim=-2)"},
          .torch = {.line = std::move(line)},
          .jax = {.line = std::move(in_jax)}};
}

}  // namespace

std::vector<OpDef> argmax() {
  return {position("argmax", "y = index of the largest element along `dim`; keep leaves it as size 1",
                   [](auto a, auto b) { return a > b; }),
          position("argmin", "y = index of the smallest element along `dim`; keep leaves it as size 1",
                   [](auto a, auto b) { return a < b; })};
}

}  // namespace shardwright::ops
