// Kernels that are not point-wise against brute force, on shapes long and odd enough for every path of their
// loops, at each instruction set. The contract test has the rest: gradients, shards, linearity.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "shardwright/graph/op.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"
#include "tests/support/instruction_sets.h"

namespace shardwright {
namespace {

using Doubles = std::vector<double>;

const std::vector<DType> numbers = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
const std::vector<DType> floats = {DType::f32, DType::f64, DType::bf16};

/// Integers from -3 to 3 in no order that a loop could follow.
Tensor integers(const Type& type, std::size_t seed = 1) {
  Doubles values(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * i * 31 + i * 17 + seed) % 7) - 3;
  return make_tensor(type, values);
}

/// Values in about [-scale, scale].
Tensor reals(const Type& type, double scale, double seed = 1) {
  Doubles values(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = scale * std::sin(static_cast<double>(i) * 1.7 + seed);
  return make_tensor(type, values);
}

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 2e-3 : 1e-2;
}

Tensor run(const char* op, const std::vector<Tensor>& operands, const Attributes& attributes = {}) {
  return evaluate(find_op(op), operands, attributes)[0];
}

/// Calls `f(index)` for every index of `shape`, row-major.
void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& f) {
  if (element_count(shape) == 0) return;
  Shape index(shape.size(), 0);
  for (;;) {
    f(index);
    std::size_t d = shape.size();
    for (; d > 0; --d) {
      if (++index[d - 1] < shape[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

std::size_t flat(const Shape& index, const Shape& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

class Kernels : public AtEachLevel {};

// ---- reductions ----

struct Reduction {
  Shape shape;
  std::vector<std::int64_t> dims;
};

const std::vector<Reduction> reductions = {{{}, {}},
                                           {{1}, {}},
                                           {{31}, {}},
                                           {{32}, {0}},
                                           {{33}, {0}},
                                           {{1000}, {}},
                                           {{5, 67}, {0}},
                                           {{5, 67}, {1}},
                                           {{67, 5}, {0}},
                                           {{300, 70}, {0}},
                                           {{70, 300}, {0}},
                                           {{70, 300}, {1}},
                                           {{3, 40, 9}, {1}},
                                           {{3, 40, 9}, {0, 2}},
                                           {{2, 3, 4, 70}, {0, 2}},
                                           {{2, 3, 4, 70}, {1, 3}},
                                           {{4, 2, 300}, {0}},
                                           {{3, 0}, {1}},
                                           {{0, 3}, {0}},
                                           {{2, 0, 3}, {1}}};

/// Folds x over the dims of `r`; `kept` gets the reduced tensor's position of every element.
Doubles folded(const Tensor& x, const Reduction& r, double start, double (*fold)(double, double),
               std::vector<std::size_t>* kept = nullptr) {
  Shape out = r.shape;
  for (std::size_t d = 0; d < out.size(); ++d)
    if (r.dims.empty() ||
        std::find(r.dims.begin(), r.dims.end(), static_cast<std::int64_t>(d)) != r.dims.end())
      out[d] = 1;
  Doubles values(static_cast<std::size_t>(element_count(out)), start);
  const Doubles from = to_doubles(x);
  for_each_index(r.shape, [&](const Shape& index) {
    Shape at = index;
    for (std::size_t d = 0; d < at.size(); ++d) at[d] = out[d] == 1 ? 0 : at[d];
    double& v = values[flat(at, out)];
    v = fold(v, from[flat(index, r.shape)]);
    if (kept) kept->push_back(flat(at, out));
  });
  return values;
}

TEST_P(Kernels, reduce_as_brute_force_does) {
  for (const Reduction& r : reductions)
    for (DType dtype : numbers) {
      SCOPED_TRACE(to_text(Type{dtype, r.shape}) + " over " + to_text(r.dims));
      const Tensor x = integers({dtype, r.shape});
      const Attributes attributes{{"dims", r.dims}};
      const Tensor sum = run("reduce_sum", {x}, attributes);
      const Doubles sums = folded(x, r, 0, [](double a, double b) { return a + b; });
      EXPECT_EQ(sum, make_tensor(sum.type(), sums));
      if (x.size() == 0) continue;
      const Tensor most = run("reduce_max", {x}, attributes);
      std::vector<std::size_t> kept;
      const Doubles mosts = folded(
          x, r, -INFINITY, [](double a, double b) { return std::max(a, b); }, &kept);
      EXPECT_EQ(most, make_tensor(most.type(), mosts));
      if (!is_floating(dtype)) continue;
      Doubles means = sums;
      for (double& m : means) m /= static_cast<double>(x.size()) / static_cast<double>(sums.size());
      EXPECT_EQ(run("reduce_mean", {x}, attributes), make_tensor(sum.type(), means));
      const Tensor dy = integers(most.type(), 5);
      const Doubles elements = to_doubles(x), gradients = to_doubles(dy);
      Doubles dx(kept.size());
      for (std::size_t i = 0; i < dx.size(); ++i)
        dx[i] = elements[i] == mosts[kept[i]] ? gradients[kept[i]] : 0;
      EXPECT_EQ(run("reduce_max_grad", {dy, x, most}, attributes), make_tensor(x.type(), dx));
    }
}

TEST_P(Kernels, find_a_nan_wherever_it_stands) {
  for (std::int64_t n : {7, 80})
    for (std::int64_t at = 0; at < n; ++at) {
      Tensor x = integers({DType::f32, {n}});
      x.as<float>()[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(run("reduce_max", {x}).as<float>()[0])) << at << " of " << n;
      EXPECT_TRUE(std::isnan(run("softmax", {x}).as<float>()[0])) << at << " of " << n;
    }
}

/// A sum in float would stop growing at 2^24.
TEST_P(Kernels, keep_long_sums_in_double) {
  const Tensor x = make_tensor({DType::f32, {5000, 4}}, Doubles(20000, 10001));
  EXPECT_EQ(run("reduce_sum", {x}).as<float>()[0], 200020000.0F);
  EXPECT_EQ(run("reduce_sum", {x}, {{"dims", Shape{0}}}).as<float>()[2], 50005000.0F);
}

// ---- softmax and cross entropy ----

struct Softmax {
  Shape shape;
  std::int64_t dim;
};

const std::vector<Softmax> softmaxes = {{{3, 100}, 1},     {{5, 7}, -1},      {{1, 600}, 1}, {{40, 33}, 0},
                                        {{2, 20, 150}, 1}, {{2, 3, 5, 4}, 1}, {{4, 1}, 1}};

/// softmax of x in double.
Doubles softmax(const Tensor& x, std::int64_t dim) {
  const Shape& shape = x.shape();
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(shape.size()) : dim);
  const Doubles from = to_doubles(x);
  Doubles sums(from.size(), 0), out(from.size());
  const auto line = [&](Shape index) {
    index[d] = 0;
    return flat(index, shape);
  };
  for_each_index(shape, [&](const Shape& i) { sums[line(i)] += std::exp(from[flat(i, shape)]); });
  for_each_index(
      shape, [&](const Shape& i) { out[flat(i, shape)] = std::exp(from[flat(i, shape)]) / sums[line(i)]; });
  return out;
}

TEST_P(Kernels, compute_softmax_by_its_definition) {
  for (const auto& [shape, dim] : softmaxes)
    for (DType dtype : floats) {
      SCOPED_TRACE(to_text(Type{dtype, shape}) + " dim " + std::to_string(dim));
      const Tensor x = reals({dtype, shape}, 8);
      const Attributes attributes{{"dim", dim}};
      const Doubles y = softmax(x, dim);
      Doubles logs = y;
      for (double& v : logs) v = std::log(v);
      EXPECT_TRUE(is_close(run("softmax", {x}, attributes), make_tensor(x.type(), y), tolerance(dtype)));
      EXPECT_TRUE(
          is_close(run("log_softmax", {x}, attributes), make_tensor(x.type(), logs), tolerance(dtype)));
      // With dy = 1 at one element k: dx = y (dy - y[k]) on k's line, and dy - y for the logarithm.
      const std::size_t k = y.size() / 2;
      Doubles one(y.size(), 0), dx(y.size(), 0), dlog(y.size(), 0);
      one[k] = 1;
      const auto position = [&](std::size_t i) {  // of the line that i is on
        const auto d =
            static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(shape.size()) : dim);
        const auto inner = static_cast<std::size_t>(strides_of(shape)[d]);
        return std::pair{i / (inner * static_cast<std::size_t>(shape[d])), i % inner};
      };
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (position(i) != position(k)) continue;
        dx[i] = y[i] * (one[i] - y[k]);
        dlog[i] = one[i] - y[i];
      }
      const Tensor dy = make_tensor(x.type(), one);
      const auto gradient = [&](const char* op, const Doubles& at) {
        return run(op, {dy, make_tensor(x.type(), at)}, attributes);
      };
      const double tolerated = 4 * tolerance(dtype);
      EXPECT_TRUE(is_close(gradient("softmax_grad", y), make_tensor(x.type(), dx), tolerated));
      EXPECT_TRUE(is_close(gradient("log_softmax_grad", logs), make_tensor(x.type(), dlog),
                           dtype == DType::bf16 ? 0.05 : tolerated));
    }
}

TEST_P(Kernels, compute_cross_entropy_by_its_definition) {
  for (std::int64_t classes : {1, 10, 100, 600})
    for (DType dtype : floats) {
      const std::int64_t rows = 5;
      SCOPED_TRACE(to_text(Type{dtype, {rows, classes}}));
      const Tensor x = reals({dtype, {rows, classes}}, 8);
      const Doubles y = softmax(x, 1);
      Doubles labels, losses, dx;
      const Tensor dy = integers({dtype, {rows}});
      const Tensor largest = run("reduce_max", {x}, {{"dims", std::vector<std::int64_t>{1}}});
      for (std::int64_t r = 0; r < rows; ++r) {
        labels.push_back(static_cast<double>((r * 7 + 3) % classes));
        const auto at = static_cast<std::size_t>(r * classes);
        losses.push_back(-std::log(y[at + static_cast<std::size_t>(labels.back())]));
        for (std::int64_t c = 0; c < classes; ++c)
          dx.push_back(to_doubles(dy)[static_cast<std::size_t>(r)] *
                       (y[at + static_cast<std::size_t>(c)] - (static_cast<double>(c) == labels.back())));
      }
      for (DType integer : {DType::i32, DType::i64}) {
        const Tensor label = make_tensor({integer, {rows}}, labels);
        const Tensor terms = run("cross_entropy_terms", {x, label, largest});
        const Tensor dterms = run("cross_entropy_of_terms_grad", {dy, terms});
        EXPECT_TRUE(is_close(run("cross_entropy_of_terms", {terms}), make_tensor({dtype, {rows}}, losses),
                             tolerance(dtype)));
        EXPECT_TRUE(is_close(run("cross_entropy_terms_grad", {dterms, x, label, largest}),
                             make_tensor(x.type(), dx), tolerance(dtype)));
      }
    }
}

TEST_P(Kernels, compute_losses_by_their_definition) {
  for (std::int64_t n : {1, 31, 1000}) {
    const Tensor a = reals({DType::f32, {n}}, 2), b = reals({DType::f32, {n}}, 2, 5);
    double absolute = 0, squared = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const double d = to_doubles(a)[i] - to_doubles(b)[i];
      absolute += std::abs(d) / static_cast<double>(n);
      squared += d * d / static_cast<double>(n);
    }
    EXPECT_FLOAT_EQ(run("mean_absolute_error", {a, b}).as<float>()[0], static_cast<float>(absolute));
    EXPECT_FLOAT_EQ(run("mean_squared_error", {a, b}).as<float>()[0], static_cast<float>(squared));
  }
}

// ---- moves ----

TEST_P(Kernels, transpose_every_order_of_dims) {
  for (const Shape& shape : {Shape{5}, Shape{1, 1}, Shape{40, 50}, Shape{129, 67}, Shape{16, 64},
                             Shape{3, 1, 17, 20}, Shape{2, 33, 4}, Shape{3, 0, 2}})
    for (DType dtype : {DType::u8, DType::bf16, DType::f32, DType::i64}) {
      const Tensor x = integers({dtype, shape});
      Shape order(shape.size());
      std::iota(order.begin(), order.end(), 0);
      do {
        Shape to;
        for (std::int64_t d : order) to.push_back(shape[static_cast<std::size_t>(d)]);
        Doubles want(static_cast<std::size_t>(x.size()));
        const Doubles from = to_doubles(x);
        for_each_index(shape, [&](const Shape& index) {
          Shape at;
          for (std::int64_t d : order) at.push_back(index[static_cast<std::size_t>(d)]);
          want[flat(at, to)] = from[flat(index, shape)];
        });
        EXPECT_EQ(run("transpose", {x}, {{"dims", order}}), make_tensor({dtype, to}, want))
            << to_text(x.type()) << " by " << to_text(order);
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST_P(Kernels, broadcast_along_any_dims) {
  const Shape to{3, 20, 5, 40};
  for (const Shape& from :
       {Shape{}, Shape{40}, Shape{5, 1}, Shape{20, 1, 40}, Shape{3, 1, 5, 1}, Shape{1, 1, 1, 1}, to}) {
    const Tensor x = integers({DType::f32, from});
    const Doubles values = to_doubles(x);
    Doubles want;
    for_each_index(to, [&](const Shape& index) {
      Shape at(index.end() - static_cast<std::ptrdiff_t>(from.size()), index.end());
      for (std::size_t d = 0; d < at.size(); ++d) at[d] = from[d] == 1 ? 0 : at[d];
      want.push_back(values[flat(at, from)]);
    });
    EXPECT_EQ(run("broadcast", {x}, {{"shape", to}}), make_tensor({DType::f32, to}, want)) << to_text(from);
  }
}

TEST_P(Kernels, sigmoid_cross_entropy_keeps_what_is_left_of_large_logits) {
  const Doubles logits{20, -20, 1000, -1000, 1000, -1000}, targets{1, 0, 1, 0, 0, 0.5};
  const Doubles want{2.061153620e-9, 2.061153620e-9, 0, 0, 1000, 500};
  for (DType dtype : {DType::f32, DType::f64}) {
    const Type type{dtype, {6}};
    const Doubles got =
        to_doubles(run("sigmoid_cross_entropy", {make_tensor(type, logits), make_tensor(type, targets)}));
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Kernels, each_level(), name_of_level);

}  // namespace
}  // namespace shardwright
