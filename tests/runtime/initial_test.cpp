#include "shardwright/runtime/initial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shardwright/layout/sharded_tensor.h"

namespace shardwright {
namespace {

Tensor initial(const Attributes& attributes, const Shape& shape, const Box& where, std::uint64_t seed = 1,
               std::string_view name = "w") {
  Tensor part({DType::f64, where.extent});
  initialize(part.view(), where, {name, attributes, shape}, seed);
  return part;
}

Tensor whole_initial(const Attributes& attributes, const Shape& shape, std::uint64_t seed = 1,
                     std::string_view name = "w") {
  return initial(attributes, shape, {Shape(shape.size(), 0), shape}, seed, name);
}

TEST(Initial, constants_are_what_they_say) {
  const Shape shape{3};
  EXPECT_EQ(to_doubles(whole_initial({}, shape)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(to_doubles(whole_initial({{"init", "ones"}}, shape)), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(to_doubles(whole_initial({{"init", "constant"}, {"value", 2.5}}, shape)),
            (std::vector<double>{2.5, 2.5, 2.5}));
}

TEST(Initial, values_do_not_depend_on_the_layout) {
  const Mesh mesh{{{"a", 2}, {"b", 3}}};
  const Shape shape{7, 5, 4};
  for (const char* init : {"uniform", "normal", "truncated_normal"}) {
    const Attributes attributes{{"init", init}, {"scale", 0.5}, {"shift", 2.0}};
    const Tensor whole = whole_initial(attributes, shape);
    for (const char* text : {"[a, b, -]", "[-, b.a, -]", "[-, -, a]"}) {
      Scanner in(text);
      const Layout layout = parse_layout(in, mesh);
      for (int r = 0; r < mesh.size(); ++r) {
        const Box where = box(layout, mesh, shape, r);
        EXPECT_EQ(initial(attributes, shape, where), take(whole, where))
            << init << " " << text << " rank " << r;
      }
    }
  }
}

TEST(Initial, seed_and_name_make_other_values) {
  const Attributes normal{{"init", "normal"}};
  EXPECT_EQ(whole_initial(normal, {8}), whole_initial(normal, {8}));
  EXPECT_NE(whole_initial(normal, {8}, 1), whole_initial(normal, {8}, 2));
  EXPECT_NE(whole_initial(normal, {8}, 1, "w"), whole_initial(normal, {8}, 1, "v"));
}

struct Moments {
  double mean, deviation, least, most;
};
Moments moments_of(const Tensor& t) {
  const std::vector<double> x = to_doubles(t);
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (double v : x) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / n), *std::min_element(x.begin(), x.end()),
          *std::max_element(x.begin(), x.end())};
}

TEST(Initial, distributions_have_their_moments) {
  const Shape shape{200, 200};
  const auto uniform =
      moments_of(whole_initial({{"init", "uniform"}, {"scale", 3.0}, {"shift", 1.0}}, shape));
  EXPECT_NEAR(uniform.mean, 1, 0.05);
  EXPECT_NEAR(uniform.deviation, 3 / std::sqrt(3), 0.05);
  EXPECT_GE(uniform.least, -2);
  EXPECT_LE(uniform.most, 4);
  const auto normal = moments_of(whole_initial({{"init", "normal"}, {"scale", 2.0}, {"shift", -1.0}}, shape));
  EXPECT_NEAR(normal.mean, -1, 0.05);
  EXPECT_NEAR(normal.deviation, 2, 0.05);
  EXPECT_GT(normal.most, 5);
  const auto cut = moments_of(whole_initial({{"init", "truncated_normal"}, {"scale", 2.0}}, shape));
  EXPECT_NEAR(cut.deviation, 2 * 0.8796, 0.05);
  EXPECT_GE(cut.least, -4);
  EXPECT_LE(cut.most, 4);
}

TEST(Initial, an_unknown_kind_is_named) {
  try {
    whole_initial({{"init", "normals"}}, {2});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "w: init=normals is unknown (did you mean normal?); there are zeros, ones, constant, uniform, "
        "normal, truncated_normal");
  }
}

}  // namespace
}  // namespace shardwright
