// Sums, means and maxima over dims: attribute `dims` (missing or empty = all), `keep` leaves them as size 1.

#include <algorithm>
#include <array>
#include <numeric>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Per dim of `shape` whether it is reduced.
std::vector<bool> reduced_dims(const Attributes& attributes, const Shape& shape) {
  const std::vector<std::int64_t> dims = attributes.integers("dims");
  std::vector<bool> out(shape.size(), dims.empty());
  for (std::int64_t d : dims) {
    if (out[dim_of(d, shape)]) throw error("dims={} names dim {} twice", to_text(dims), dim_of(d, shape));
    out[dim_of(d, shape)] = true;
  }
  return out;
}

struct Sides {
  std::string whole, reduced;  // `i0 i1+` and `i0`, or with keep `i0 1`
};

Sides sides_of(const Attributes& attributes, const Shape& shape, std::string_view mark) {
  const std::vector<bool> is_reduced = reduced_dims(attributes, shape);
  std::vector<std::string> whole, reduced;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    whole.push_back(loop_name(d, is_reduced[d] ? mark : ""));
    if (!is_reduced[d])
      reduced.push_back(loop_name(d));
    else if (attributes.flag("keep"))
      reduced.push_back("1");
  }
  return {tensor_text(whole), tensor_text(reduced)};
}

std::function<std::string(const Call&)> rule_with(std::string_view mark) {
  return [mark](const Call& call) {
    check_count(call, 1);
    const Sides sides = sides_of(call.attributes, call.operands[0].shape, mark);
    return sides.whole + " -> " + sides.reduced;
  };
}

Shape reduced_shape(const Attributes& attributes, const Shape& shape) {
  const std::vector<bool> is_reduced = reduced_dims(attributes, shape);
  Shape out;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!is_reduced[d] || attributes.flag("keep")) out.push_back(is_reduced[d] ? 1 : shape[d]);
  return out;
}

std::vector<Type> infer_number(const Call& call) {
  check_count(call, 1);
  check_number(call.operands[0].dtype);
  return {{call.operands[0].dtype, reduced_shape(call.attributes, call.operands[0].shape)}};
}

std::vector<Type> infer_floating(const Call& call) {
  check_count(call, 1);
  check_floating(call.operands[0].dtype);
  return infer_number(call);
}

/// Whether dim d is reduced, without a list.
bool is_reduced(const Attributes& attributes, std::size_t d, std::size_t rank) {
  const auto dims = dims_in(attributes);
  return dims.empty() || std::any_of(dims.begin(), dims.end(), [&](std::int64_t listed) {
           return listed == static_cast<std::int64_t>(d) ||
                  listed == static_cast<std::int64_t>(d) - static_cast<std::int64_t>(rank);
         });
}

/// A walk over x (tensor 0) and over the reduced tensor, which stands still along reduced dims.
Walk<2> reduction_walk(const Attributes& attributes, const Shape& shape) {
  Walk<2> walk;
  std::int64_t stride = 1, kept_stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const bool goes = is_reduced(attributes, d, shape.size());
    walk.surround({shape[d], {stride, goes ? 0 : kept_stride}});
    stride *= shape[d];
    if (!goes) kept_stride *= shape[d];
  }
  return walk;
}

/// The loops of a walk that a result is made in, and those that are folded for it.
struct Loops {
  Walk<2> kept, folded;
  bool folds_rows = false;  // the innermost loop is folded

  Loops(const Attributes& attributes, const Shape& shape) {
    const Walk<2> walk = reduction_walk(attributes, shape);
    for (const Pass<2>& pass : walk.passes()) (pass.strides[1] == 0 ? folded : kept).surround(pass);
    folds_rows = !walk.passes().empty() && walk.row().strides[1] == 0;
  }
};

/// What is kept, over `count`: sums of floating elements become means.
template <class F, class A>
A finished(A kept, double count) {
  if constexpr (std::is_same_v<F, Sum> && std::is_same_v<A, double>)
    return kept / count;
  else
    return kept;
}

/// One result per row, or per set of rows.
template <class F, class T>
void fold_rows(const Loops& loops, const T* x, T* y, double count) {
  using C = Compute<T>;
  using A = typename F::template Kept<C>;
  const std::int64_t n = loops.folded.row().extent;
  for_each_point(loops.kept.passes(), [&](const auto& kept) {
    A a = F::template start<A>;
    for_each_point(loops.folded.around_row(), [&](const auto& at) {
      const T* const row = x + kept[0] + at[0];
      a = F{}(a, fold<F>(n, [row](std::int64_t i) { return static_cast<C>(row[i]); }));
    });
    y[kept[1]] = static_cast<T>(static_cast<C>(finished<F>(a, count)));
  });
}

/// A row of results per set of rows, strip by strip.
template <class F, class T>
void fold_columns(const Loops& loops, const T* x, T* y, double count) {
  using C = Compute<T>;
  using A = typename F::template Kept<C>;
  constexpr std::int64_t strip = 256;
  const std::int64_t width = loops.kept.row().extent;
  for_each_row(loops.kept, [&](const auto& kept) {
    for (std::int64_t start = 0; start < width; start += strip) {
      const std::int64_t n = std::min(strip, width - start);
      std::array<A, strip> a;
      a.fill(F::template start<A>);
      A* const into = a.data();
      for_each_point(loops.folded.passes(), [&](const auto& at) {
        const T* const row = x + kept[0] + start + at[0];
        for (std::int64_t i = 0; i < n; ++i) into[i] = F{}(into[i], static_cast<A>(static_cast<C>(row[i])));
      });
      T* const to = y + kept[1] + start;
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = static_cast<T>(static_cast<C>(finished<F>(into[i], count)));
    }
  });
}

/// Folds with F. Where that is a sum, the result is divided by `count`.
template <class F>
void reduce(const KernelCall& call, double count = 1) {
  visit_number(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    vectorized([loops = Loops(call.attributes, call.operands[0].shape), count,
                x = call.operands[0].as<T>().data(), y = call.results[0].as<T>().data()] {
      loops.folds_rows ? fold_rows<F>(loops, x, y, count) : fold_columns<F>(loops, x, y, count);
    });
  });
}

void sum_kernel(const KernelCall& call) { reduce<Sum>(call); }

/// Divides by the global count, so that partial results add up to the mean.
void mean_kernel(const KernelCall& call) {
  double count = 1;
  for (std::size_t l = 0; l < call.rule.loops.size(); ++l)
    if (call.rule.loops[l].kind == LoopKind::sum) count *= static_cast<double>(call.box.loops[l].size);
  reduce<Sum>(call, count);
}

void max_kernel(const KernelCall& call) { reduce<Largest>(call); }

/// dx = dy where x is the largest, else 0. Along a row y and dy go along, or stand still.
void max_gradient_kernel(const KernelCall& call) {
  const TensorView &dy = call.operands[0], &x = call.operands[1], &y = call.operands[2];
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    vectorized([walk = reduction_walk(call.attributes, x.shape), to = call.results[0].as<T>().data(),
                from = x.as<T>().data(), largest = y.as<T>().data(), gradient = dy.as<T>().data()] {
      const Pass<2> row = walk.row();
      for_each_row(walk, [=](const auto& at) {
        const T *const values = from + at[0], *const best = largest + at[1], *const g = gradient + at[1];
        T* const out = to + at[0];
        const T still_best = *best, still_g = *g;
        if (row.strides[1] == 0)
          for (std::int64_t i = 0; i < row.extent; ++i) out[i] = values[i] == still_best ? still_g : T(0);
        else
          for (std::int64_t i = 0; i < row.extent; ++i) out[i] = values[i] == best[i] ? g[i] : T(0);
      });
    });
  });
}

std::string max_gradient_rule(const Call& call) {
  check_count(call, 3);
  const Sides sides = sides_of(call.attributes, call.operands[1].shape, "");
  return fmt::format("{0}, {1}, {0} -> {1}", sides.reduced, sides.whole);
}

std::vector<Type> infer_max_gradient(const Call& call) {
  check_count(call, 3);
  check_floating(call.operands[1].dtype);
  check_same_dtype(call, 0, 1);
  check_same_dtype(call, 1, 2);
  const Shape reduced = reduced_shape(call.attributes, call.operands[1].shape);
  for (std::size_t i : {0, 2})
    if (call.operands[i].shape != reduced)
      throw error("operand {} is {} but {} is reduced to {}", i, to_text(call.operands[i]),
                  to_text(call.operands[1]), to_text(reduced));
  return {call.operands[1]};
}

/// `dy`, a tensor of the reduced shape, repeated to the shape of the operand.
ValueId spread(Gradient& g, ValueId dy) {
  const Shape shape = g.type(g.in(0)).shape;
  Attributes kept = g.attributes();
  kept.set("keep", true);
  const Shape aligned = reduced_shape(kept, shape);
  if (g.type(dy).shape != aligned && broadcast_shape(g.type(dy).shape, aligned) != aligned)
    dy = g.call("reshape", {dy}, {{"shape", aligned}});
  return g.call("broadcast", {dy}, {{"shape", shape}});
}

std::vector<ValueId> mean_gradient(Gradient& g) {
  const auto count = static_cast<double>(element_count(g.type(g.in(0)).shape)) /
                     static_cast<double>(element_count(g.type(g.out()).shape));
  return {spread(g, g.call("scale", {g.dy()}, {{"factor", 1 / count}}))};
}

std::vector<ValueId> max_gradient(Gradient& g) {
  return {g.call("reduce_max_grad", {g.dy(), g.in(0), g.out()}, g.attributes())};
}

/// All dims, and none left as size 1.
std::function<Attributes(const Call&)> defaults_of(std::size_t x) {
  return [x](const Call& call) {
    std::vector<std::int64_t> dims(call.operands[x].shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    return Attributes{{"dims", dims}, {"keep", false}};
  };
}

const std::vector<std::string> samples = {"f32[4,6]", "f32[4,6] (dims=[1])", "f32[4,6] (dims=[0])",
                                          "f32[2,6,4] (dims=[0,2], keep=true)", "f32[2,6,4] (dims=[-2])"};

}  // namespace

std::vector<OpDef> reduce() {
  return {{.name = "reduce_sum",
           .doc = "y = sum of x over `dims`",
           .attributes = {"dims", "keep"},
           .defaults_for = defaults_of(0),
           .rule_for = rule_with("+"),
           .linear = "{0}",
           .infer = infer_number,
           .gradient = [](Gradient& g) { return std::vector{spread(g, g.dy())}; },
           .kernel = sum_kernel,
           .samples = samples,
           .torch = {.line = "{0}.sum({dims}, keepdim={keep}, dtype={dtype})"},
           .jax = {.line = "{0}.sum({dims}, {dtype}, keepdims={keep})"}},
          {.name = "reduce_mean",
           .doc = "y = mean of x over `dims`",
           .attributes = {"dims", "keep"},
           .defaults_for = defaults_of(0),
           .rule_for = rule_with("+"),
           .linear = "{0}",
           .infer = infer_floating,
           .gradient = mean_gradient,
           .kernel = mean_kernel,
           .samples = samples,
           .torch = {.line = "once(lambda x: x.sum({dims}, keepdim={keep}) / {count}, {0})",
                     .numbers =
                         [](const KernelCall& c) {
                           double count = 1;
                           for (std::size_t l = 0; l < c.rule.loops.size(); ++l)
                             if (c.rule.loops[l].kind == LoopKind::sum)
                               count *= static_cast<double>(c.box.loops[l].size);
                           return Attributes{{"count", count}};
                         }},
           .jax = {.line = "once(lambda x: x.sum({dims}, keepdims={keep}) / {count}, {0})"}},
          {.name = "reduce_max",
           .doc = "y = largest of x over `dims`; the gradient goes to every position that is the largest",
           .attributes = {"dims", "keep"},
           .defaults_for = defaults_of(0),
           .rule_for = rule_with(">"),
           .infer = infer_number,
           .gradient = max_gradient,
           .kernel = max_kernel,
           .samples = samples,
           .torch = {.line = "{0}.amax({dims}, keepdim={keep})"},
           .jax = {.line = "{0}.max({dims}, keepdims={keep})"}},
          {.name = "reduce_max_grad",
           .doc = "dx = dy where x = y, else 0",
           .attributes = {"dims", "keep"},
           .defaults_for = defaults_of(1),
           .rule_for = max_gradient_rule,
           .linear = "{0}",
           .infer = infer_max_gradient,
           .kernel = max_gradient_kernel,
           .samples = {"f32[], f32[4,6], f32[]", "f32[4], f32[4,6], f32[4] (dims=[1])",
                       "f32[6], f32[4,6], f32[6] (dims=[0])",
                       "f32[1,6,1], f32[2,6,4], f32[1,6,1] (dims=[0,2], keep=true)"},
           .torch = {.line = "reduce_max_grad({0}, {1}, {2}, {dims}, {keep})", .functions = R"(
def reduce_max_grad(dy, x, y, dims, keep):
    each = [1 if d in dims or d - x.dim() in dims else n for d, n in enumerate(x.shape)]
    return dy.reshape(each) * (x == y.reshape(each))
)"},
           .jax = {.functions = R"(
def reduce_max_grad(dy, x, y, dims, keep):
    each = [1 if d in dims or d - x.ndim in dims else n for d, n in enumerate(x.shape)]
    return dy.reshape(each) * (x == y.reshape(each))
)"}}};
}

}  // namespace shardwright::ops
