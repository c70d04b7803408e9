// Sums, means and maxima over dims: attribute `dims` (missing or empty = all), `keep` leaves them as size 1.

#include <limits>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Per dim of `shape` whether it is reduced.
std::vector<bool> reduced_dims(const Attributes& attributes, const Shape& shape) {
  const std::vector<std::int64_t> dims = attributes.integers("dims");
  std::vector<bool> out(shape.size(), dims.empty());
  for (std::int64_t d : dims) out[dim_of(d, shape)] = true;
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

/// Strides of the reduced tensor along the dims of `shape`: 0 along those that are reduced.
Shape reduced_strides(const Attributes& attributes, const Shape& shape) {
  const std::vector<bool> is_reduced = reduced_dims(attributes, shape);
  Shape out(shape.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;)
    if (!is_reduced[d]) {
      out[d] = stride;
      stride *= shape[d];
    }
  return out;
}

struct Sum {
  template <class A>
  static constexpr A start = A(0);
  template <class A>
  A operator()(A a, A b) const {
    return a + b;
  }
};

/// A NaN among the elements is the result.
struct Largest {
  template <class A>
  static constexpr A start = std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity()
                                                                  : std::numeric_limits<A>::lowest();
  template <class A>
  A operator()(A a, A b) const {
    return a > b || a != a ? a : b;
  }
};

/// Folds with F in the accumulator type; `finish` makes the result of it.
template <class F, class G>
void reduce(const KernelCall& call, F f, G finish) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const Walk walk =
      walk_over(x.shape, std::vector{strides_of(x.shape), reduced_strides(call.attributes, x.shape)});
  const std::int64_t n = walk.row_length();
  visit_number(x.dtype, [&]<class T>(std::type_identity<T>) {
    using A = Accumulator<T>;
    const T* const elements = x.as<T>().data();
    std::vector<A> into(static_cast<std::size_t>(y.size()), F::template start<A>);
    for_each_row(walk, [&](const Shape& at) {
      const T* const from = elements + at[0];
      A* const to = into.data() + at[1];
      const auto element = [&](std::int64_t i) { return static_cast<A>(static_cast<Compute<T>>(from[i])); };
      if (walk.step(1) != 0) {
        for (std::int64_t i = 0; i < n; ++i) to[i] = f(to[i], element(i));
      } else {
        A a = *to;
        for (std::int64_t i = 0; i < n; ++i) a = f(a, element(i));
        *to = a;
      }
    });
    const auto out = y.as<T>();
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<T>(static_cast<Compute<T>>(finish(into[i])));
  });
}

void sum_kernel(const KernelCall& call) {
  reduce(call, Sum{}, [](auto a) { return a; });
}

/// Divides by the global count, so that partial results add up to the mean.
void mean_kernel(const KernelCall& call) {
  double count = 1;
  for (std::size_t l = 0; l < call.rule.loops.size(); ++l)
    if (call.rule.loops[l].kind == LoopKind::sum) count *= static_cast<double>(call.box.loops[l].size);
  reduce(call, Sum{}, [count](auto a) { return static_cast<decltype(a)>(a / count); });
}

void max_kernel(const KernelCall& call) {
  reduce(call, Largest{}, [](auto a) { return a; });
}

/// dx = dy where x is the largest, else 0.
void max_gradient_kernel(const KernelCall& call) {
  const TensorView &dy = call.operands[0], &x = call.operands[1], &y = call.operands[2];
  const Walk walk =
      walk_over(x.shape, std::vector{strides_of(x.shape), reduced_strides(call.attributes, x.shape)});
  const std::int64_t n = walk.row_length(), step = walk.step(1);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for_each_row(walk, [&](const Shape& at) {
      T* const to = call.results[0].as<T>().data() + at[0];
      const T* const from = x.as<T>().data() + at[0];
      const T* const largest = y.as<T>().data() + at[1];
      const T* const gradient = dy.as<T>().data() + at[1];
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] == largest[i * step] ? gradient[i * step] : T(0);
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

const std::vector<std::string> samples = {"f32[4,6]", "f32[4,6] (dims=[1])", "f32[4,6] (dims=[0])",
                                          "f32[2,6,4] (dims=[0,2], keep=true)", "f32[2,6,4] (dims=[-2])"};

}  // namespace

std::vector<OpDef> reduce() {
  return {{
              .name = "reduce_sum",
              .doc = "y = sum of x over `dims`",
              .rule_for = rule_with("+"),
              .linear = "{0}",
              .infer = infer_number,
              .gradient = [](Gradient& g) { return std::vector{spread(g, g.dy())}; },
              .kernel = sum_kernel,
              .samples = samples,
          },
          {
              .name = "reduce_mean",
              .doc = "y = mean of x over `dims`",
              .rule_for = rule_with("+"),
              .linear = "{0}",
              .infer = infer_floating,
              .gradient = mean_gradient,
              .kernel = mean_kernel,
              .samples = samples,
          },
          {
              .name = "reduce_max",
              .doc = "y = largest of x over `dims`; the gradient goes to every position that is the largest",
              .rule_for = rule_with(">"),
              .infer = infer_number,
              .gradient = max_gradient,
              .kernel = max_kernel,
              .samples = samples,
          },
          {
              .name = "reduce_max_grad",
              .doc = "dx = dy where x = y, else 0",
              .rule_for = max_gradient_rule,
              .linear = "{0}",
              .infer = infer_max_gradient,
              .kernel = max_gradient_kernel,
              .samples = {"f32[], f32[4,6], f32[]", "f32[4], f32[4,6], f32[4] (dims=[1])",
                          "f32[6], f32[4,6], f32[6] (dims=[0])",
                          "f32[1,6,1], f32[2,6,4], f32[1,6,1] (dims=[0,2], keep=true)"},
          }};
}

}  // namespace shardwright::ops
