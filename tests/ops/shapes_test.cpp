// Operators that move elements, sum along a dim or order it, on small tensors written out.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "shardwright/frontend/functions.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

using Doubles = std::vector<double>;
using List = std::vector<std::int64_t>;

/// 0, 1, 2, ...
Tensor counting(Shape shape) {
  Doubles values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0);
  return make_tensor({DType::f32, std::move(shape)}, values);
}

Tensor tensor(Shape shape, const Doubles& values) {
  return make_tensor({DType::f32, std::move(shape)}, values);
}

std::vector<Tensor> run(const char* op, const std::vector<Tensor>& operands,
                        const Attributes& attributes = {}) {
  return evaluate(find_op(op), operands, attributes);
}

TEST(Concat, lays_tensors_one_behind_the_other) {
  EXPECT_EQ(run("concat", {counting({2, 2}), counting({2, 1})}, {{"dim", 1}})[0],
            tensor({2, 3}, {0, 1, 0, 2, 3, 1}));
  EXPECT_EQ(run("concat", {counting({1, 2}), counting({2, 2})})[0], tensor({3, 2}, {0, 1, 0, 1, 2, 3}));
}

/// Of DenseNet: the sizes of the parts are not within each other.
TEST(Concat, has_as_much_work_as_elements) {
  const std::vector<Type> parts(25, Type{DType::f32, {4, 32}});
  const std::vector<Type> whole{{DType::f32, {4, 800}}};
  const Call call{parts, whole, {{"dim", 1}}};
  EXPECT_EQ(flops_of(find_op("concat"), rule_of(find_op("concat"), call)), 4 * 800);
}

TEST(Split, is_undone_by_concat) {
  const Tensor x = counting({2, 6, 3});
  const Attributes how{{"dim", 1}, {"sizes", List{1, 3, 2}}};
  const std::vector<Tensor> parts = run("split", {x}, how);
  EXPECT_EQ(parts[1].shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(to_doubles(parts[0]), (Doubles{0, 1, 2, 18, 19, 20}));
  EXPECT_EQ(run("concat", parts, {{"dim", 1}})[0], x);
}

/// Some parts are used, some not: these have zeros for a gradient.
TEST(Split, has_a_gradient_through_each_part) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.leaf(OpKind::input, "x", {DType::f32, {6}});
  const auto parts = builder.call_all(find_op("split"), {x}, {{"sizes", List{1, 3, 2}}});
  const ValueId dy = builder.leaf(OpKind::input, "dy", {DType::f32, {3}});
  Gradient gradient(builder, graph.value(parts[1]).producer, {ValueId{}, dy, ValueId{}});
  const ValueId dx = find_op("split").gradient(gradient)[0];
  const auto values = evaluate(graph, {{"x", counting({6})}, {"dy", tensor({3}, {7, 8, 9})}});
  EXPECT_EQ(values[static_cast<std::size_t>(dx.index)], tensor({6}, {0, 7, 8, 9, 0, 0}));
}

TEST(Slice, reads_bounds_as_python_does) {
  const Tensor x = counting({2, 6});
  const auto columns = [&](std::int64_t start, std::int64_t stop, std::int64_t step) {
    return run("strided_slice", {x},
               {{"dims", List{1}}, {"starts", List{start}}, {"stops", List{stop}}, {"steps", List{step}}})[0];
  };
  EXPECT_EQ(columns(1, 4, 1), tensor({2, 3}, {1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(columns(-3, 100, 2), tensor({2, 2}, {3, 5, 9, 11}));
  EXPECT_EQ(columns(-100, -4, 1), tensor({2, 2}, {0, 1, 6, 7}));
}

TEST(Pad, puts_a_value_around_and_between) {
  EXPECT_EQ(
      run("pad", {counting({2, 2})},
          {{"dims", List{1}}, {"before", List{1}}, {"after", List{2}}, {"gaps", List{1}}, {"value", 9.0}})[0],
      tensor({2, 6}, {9, 0, 9, 1, 9, 9, 9, 2, 9, 3, 9, 9}));
}

TEST(Tile, repeats_every_dim) {
  EXPECT_EQ(run("tile", {counting({2, 2})}, {{"repeats", List{2, 3}}})[0],
            tensor({4, 6}, {0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
}

TEST(Cumsum, sums_either_way_with_or_without_the_element) {
  const Tensor x = tensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(to_doubles(run("cumsum", {x})[0]), (Doubles{1, 3, 6, 10}));
  EXPECT_EQ(to_doubles(run("cumsum", {x}, {{"exclusive", true}})[0]), (Doubles{0, 1, 3, 6}));
  EXPECT_EQ(to_doubles(run("cumsum", {x}, {{"reverse", true}})[0]), (Doubles{10, 9, 7, 4}));
  EXPECT_EQ(to_doubles(run("cumsum", {x}, {{"exclusive", true}, {"reverse", true}})[0]),
            (Doubles{9, 7, 4, 0}));
  // Wider than a strip of sums.
  const Tensor wide = run("cumsum", {counting({3, 300})}, {{"dim", 0}})[0];
  EXPECT_EQ(to_doubles(wide)[2 * 300 + 299], 299 + 599 + 899);
}

TEST(Argmax, takes_the_first_of_equals_and_a_nan) {
  const Tensor x = tensor({3, 4}, {1, 3, 3, 2, -1, -2, -2, 0, 5, NAN, 7, NAN});
  EXPECT_EQ(run("argmax", {x})[0], make_tensor({DType::i64, {3}}, Doubles{1, 3, 1}));
  EXPECT_EQ(run("argmin", {x})[0], make_tensor({DType::i64, {3}}, Doubles{0, 1, 1}));
}

TEST(TopK, is_ordered_and_takes_the_first_of_equals) {
  const Tensor x = tensor({2, 5}, {2, 5, 2, 9, 5, -1, NAN, 3, 3, 0});
  const std::vector<Tensor> top = run("top_k", {x}, {{"k", 3}});
  EXPECT_EQ(top[1], make_tensor({DType::i64, {2, 3}}, Doubles{3, 1, 4, 1, 2, 3}));
  EXPECT_TRUE(is_close(top[0], tensor({2, 3}, {9, 5, 5, NAN, 3, 3})));
  EXPECT_EQ(run("top_k", {x}, {{"k", 2}, {"largest", false}})[1],
            make_tensor({DType::i64, {2, 2}}, Doubles{0, 2, 0, 4}));
}

TEST(TopK, of_all_is_a_sort) {
  Doubles values(257);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i % 263);
  const Tensor x = tensor({257}, values);
  std::stable_sort(values.begin(), values.end(), std::greater<>());
  EXPECT_EQ(to_doubles(run("top_k", {x}, {{"k", 257}})[0]), values);
}

// ---- functions of several operators ----

/// The value of `f` applied to `x`.
template <class F>
Tensor value_of(const Tensor& x, F f) {
  Trace trace(x.dtype());
  const Traced y = f(trace.input("x", x.type()));
  return evaluate(trace.graph(), {{"x", x}})[static_cast<std::size_t>(y.id.index)];
}

TEST(Functions, stack_along_a_new_dim) {
  EXPECT_EQ(value_of(counting({2, 2}),
                     [](Traced x) {
                       return stack({x, x}, 1);
                     }),
            tensor({2, 2, 2}, {0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(value_of(counting({2}),
                     [](Traced x) {
                       return stack({x, x, x}, -1);
                     }),
            tensor({2, 3}, {0, 0, 0, 1, 1, 1}));
}

TEST(Functions, take_the_variance) {
  const Tensor x = tensor({2, 3}, {1, 2, 6, 4, 4, 4});
  EXPECT_TRUE(is_close(value_of(x, [](Traced v) { return variance(v, {.dims = {1}}); }),
                       tensor({2}, {14.0 / 3, 0}), 1e-6));
  EXPECT_TRUE(is_close(value_of(x, [](Traced v) { return variance(v, {.dims = {1}, .keep = true}, 1); }),
                       tensor({2, 1}, {7, 0}), 1e-6));
}

TEST(Functions, normalize_lines_and_leave_zeros) {
  EXPECT_TRUE(is_close(value_of(tensor({2, 2}, {3, -4, 0, 0}), [](Traced v) { return l2_normalize(v); }),
                       tensor({2, 2}, {0.6, -0.8, 0, 0}), 1e-6));
}

// 4,096 elements of 3: a norm of 192, which short squares, sums and roots would each round.
TEST(Functions, normalize_short_lines_with_one_rounding) {
  for (const DType brief : {DType::bf16, DType::f16}) {
    Trace trace(Precision::mixed(brief));
    const Type type{brief, {2, 4096}};
    trace.graph().outputs = {l2_normalize(trace.input("x", type)).id};
    std::vector<double> x(2 * 4096, 3.0);
    x[0] = 2.5;
    const double norm = std::sqrt(4095 * 9 + 6.25);
    const Tensor y =
        evaluate(trace.graph(),
                 {{"x", make_tensor(type, x)}})[static_cast<std::size_t>(trace.graph().outputs[0].index)];
    EXPECT_EQ(y.dtype(), brief);
    const double first = 2.5 / norm, second = 3 / norm;
    EXPECT_EQ(to_doubles(y)[0], to_doubles(make_tensor({brief, {1}}, std::span(&first, 1)))[0]);
    EXPECT_EQ(to_doubles(y)[1], to_doubles(make_tensor({brief, {1}}, std::span(&second, 1)))[0]);
  }
}

}  // namespace
}  // namespace shardwright
