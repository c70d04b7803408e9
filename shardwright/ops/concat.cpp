// Several tensors made into one along a dim, and one cut into several. The dim stays whole, the others are free.

#include <cstring>
#include <numeric>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::size_t dim_in(const Attributes& attributes, const Shape& shape) {
  return dim_of(attributes.integer("dim", 0), shape);
}

/// `i0 part0^` and so on for `parts` tensors, and `i0 whole^` for the one that they make.
struct Texts {
  std::string parts, whole;

  Texts(const Shape& shape, std::size_t dim, std::size_t part_count) {
    std::vector<std::string> dims, all;
    for (std::size_t d = 0; d < shape.size(); ++d) dims.push_back(loop_name(d));
    for (std::size_t p = 0; p < part_count; ++p) {
      dims[dim] = fmt::format("part{}^", p);
      all.push_back(tensor_text(dims));
    }
    parts = join(all, ", ");
    dims[dim] = "whole^";
    whole = tensor_text(dims);
  }
};

/// One for each element of `whole`: its loop and those of the parts are not within each other.
double flops_of_whole(const Rule& rule, const RuleTensor& whole) {
  double points = 1;
  for (const auto& dim : whole.dims)
    for (int loop : dim) points *= static_cast<double>(rule.loops[static_cast<std::size_t>(loop)].size);
  return points;
}

/// Moves the elements between `whole` and `parts`, which lie one behind the other along `dim`.
template <class Move>
void for_each_run(const TensorView& whole, std::span<const TensorView> parts, std::size_t dim, Move move) {
  const Lines lines(whole.shape, dim);
  const std::int64_t bytes = lines.inner * static_cast<std::int64_t>(size_of(whole.dtype));
  std::int64_t start = 0;
  for (const TensorView& part : parts) {
    require(Lines(part.shape, dim).outer == lines.outer && Lines(part.shape, dim).inner == lines.inner,
            "{} is no part of {} along dim {}", to_text(part.shape), to_text(whole.shape), dim);
    const std::int64_t run = part.shape[dim] * bytes;
    require(start + run <= lines.length * bytes, "parts are longer than {}", to_text(whole.shape));
    for (std::int64_t o = 0; o < lines.outer && run > 0; ++o)
      move(whole.data + o * lines.length * bytes + start, part.data + o * run, static_cast<std::size_t>(run));
    start += run;
  }
  require(start == lines.length * bytes, "parts are shorter than {}", to_text(whole.shape));
}

// ---- concat ----

std::vector<Type> infer_concat(const Call& call) {
  if (call.operands.empty()) throw error("has no operands but takes at least 1");
  Type y = call.operands[0];
  const std::size_t dim = dim_in(call.attributes, y.shape);
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    const Type& x = call.operands[i];
    check_same_dtype(call, 0, i);
    Shape but_dim = x.shape;
    if (but_dim.size() == y.shape.size()) but_dim[dim] = y.shape[dim];
    if (but_dim != y.shape)
      throw error("operands 0 and {} are {} and {}; all dims but dim {} must be equal", i,
                  to_text(call.operands[0]), to_text(x), dim);
    if (__builtin_add_overflow(y.shape[dim], x.shape[dim], &y.shape[dim]))
      throw error("dim {} would have more elements than fit in 63 bits", dim);
  }
  return {y};
}

std::string concat_rule(const Call& call) {
  const Shape shape = infer_concat(call)[0].shape;
  const Texts texts(shape, dim_in(call.attributes, shape), call.operands.size());
  return texts.parts + " -> " + texts.whole;
}

std::string all_of(std::size_t operands) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < operands; ++i) numbers.push_back(fmt::format("{}", i));
  return "{" + join(numbers, ",") + "}";
}

std::vector<ValueId> concat_gradient(Gradient& g) {
  const std::size_t dim = dim_in(g.attributes(), g.type(g.out()).shape);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < g.operand_count(); ++i) sizes.push_back(g.type(g.in(i)).shape[dim]);
  return g.call_all("split", {g.dy()}, {{"dim", static_cast<std::int64_t>(dim)}, {"sizes", sizes}});
}

void concat_kernel(const KernelCall& call) {
  const TensorView& y = call.results[0];
  for_each_run(y, call.operands, dim_in(call.attributes, y.shape),
               [](std::byte* whole, std::byte* part, std::size_t n) { std::memcpy(whole, part, n); });
}

// ---- split ----

std::vector<Type> infer_split(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  const std::size_t dim = dim_in(call.attributes, x.shape);
  const std::vector<std::int64_t> sizes = call.attributes.integers("sizes");
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) {
    if (size < 1 || size > x.shape[dim] - sum)
      throw error("sizes={} do not add up to the {} of dim {} of {}", to_text(sizes), x.shape[dim], dim,
                  to_text(x));
    sum += size;
  }
  if (sum != x.shape[dim] || sizes.empty())
    throw error("sizes={} do not add up to the {} of dim {} of {}", to_text(sizes), x.shape[dim], dim,
                to_text(x));
  std::vector<Type> parts(sizes.size(), x);
  for (std::size_t p = 0; p < parts.size(); ++p) parts[p].shape[dim] = sizes[p];
  return parts;
}

std::string split_rule(const Call& call) {
  const Shape& shape = call.operands[0].shape;
  const Texts texts(shape, dim_in(call.attributes, shape), infer_split(call).size());
  return texts.whole + " -> " + texts.parts;
}

/// Parts that nothing depends on give zeros.
std::vector<ValueId> split_gradient(Gradient& g) {
  const Type& x = g.type(g.in(0));
  const std::size_t dim = dim_in(g.attributes(), x.shape);
  std::vector<ValueId> parts;
  for (std::int64_t size : g.attributes().integers("sizes")) {
    const ValueId dy = g.dy(parts.size());
    Shape shape = x.shape;
    shape[dim] = size;
    parts.push_back(
        dy.is_valid() ? dy
                      : g.call("fill", {},
                               {{"shape", shape}, {"value", 0.0}, {"dtype", std::string(name_of(x.dtype))}}));
  }
  return {g.call("concat", std::move(parts), {{"dim", static_cast<std::int64_t>(dim)}})};
}

void split_kernel(const KernelCall& call) {
  const TensorView& x = call.operands[0];
  for_each_run(x, call.results, dim_in(call.attributes, x.shape),
               [](std::byte* whole, std::byte* part, std::size_t n) { std::memcpy(part, whole, n); });
}

}  // namespace

std::vector<OpDef> concat() {
  return {{.name = "concat",
           .doc = "y = the operands one behind the other along `dim`",
           .attributes = {"dim"},
           .defaults = {{"dim", std::int64_t{0}}},
           .rule_for = concat_rule,
           .linear_for = [](const Call& c) { return all_of(c.operands.size()); },
           .infer = infer_concat,
           .flops = [](const Rule& rule) { return flops_of_whole(rule, rule.results[0]); },
           .gradient = concat_gradient,
           .kernel = concat_kernel,
           .samples = {"f32[4,6], f32[2,6]", "f32[4,6], f32[4,6], f32[4,12] (dim=1)",
                       "f32[2,4,6], f32[2,6,6] (dim=-2)", "i32[6], i32[4]"},
           .torch = {.line = "torch.cat([{*}], {dim})"},
           .jax = {.line = "jnp.concatenate([{*}], {dim})"}},
          {.name = "split",
           .doc = "parts of x of `sizes`, one behind the other along `dim`",
           .attributes = {"dim", "sizes"},
           .defaults = {{"dim", std::int64_t{0}}},
           .rule_for = split_rule,
           .linear = "{0}",
           .infer = infer_split,
           .flops = [](const Rule& rule) { return flops_of_whole(rule, rule.operands[0]); },
           .gradient = split_gradient,
           .kernel = split_kernel,
           .samples = {"f32[6,6] (sizes=[4,2])", "f32[4,12] (dim=1, sizes=[4,4,4])",
                       "f32[2,6,4] (dim=-2, sizes=[2,4])"},
           .torch = {.line_for =
                         [](const Call& c) {
                           return c.attributes.integers("sizes").size() == 1
                                      ? "{0}"
                                      : "torch.split({0}, {sizes}, {dim})";
                         },
                     .may_share = true},
           .jax = {.line_for = [](const Call& c) {
             const auto sizes = c.attributes.integers("sizes");
             if (sizes.size() == 1) return std::string("{0}");
             std::vector<std::string> ends;
             for (std::int64_t end = 0; std::int64_t size : std::span(sizes).first(sizes.size() - 1))
               ends.push_back(fmt::format("{}", end += size));
             return fmt::format("jnp.split({{0}}, [{}], {{dim}})", join(ends, ", "));
           }}}};
}

}  // namespace shardwright::ops
