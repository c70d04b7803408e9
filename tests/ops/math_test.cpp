// ops/math.h against std's functions in double: over floats of all sizes, at each instruction set.

#include "shardwright/ops/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/instruction_sets.h"

namespace shardwright {
namespace {

struct Function {
  const char* name;
  void (*fast)(const std::vector<float>& x, std::vector<float>& y);
  double (*exact)(double);
  double ulps;  // largest error
};

template <float (*f)(float)>
void over(const std::vector<float>& x, std::vector<float>& y) {
  vectorized([from = x.data(), to = y.data(), n = x.size()] {
    for (std::size_t i = 0; i < n; ++i) to[i] = f(from[i]);
  });
}

/// 0 where e^-x is infinite as a float.
double sigmoid(double x) { return x < -88.722839 ? 0 : 1 / (1 + std::exp(-x)); }

const Function functions[] = {
    {"exp", over<ops::math::exp>, std::exp, 1},
    {"log", over<ops::math::log>, std::log, 1.1},
    {"tanh", over<ops::math::tanh>, std::tanh, 1.3},
    {"erf", over<ops::math::erf>, std::erf, 1.1},
    {"sigmoid", over<ops::math::sigmoid<float>>, sigmoid, 2.5},
};

/// Every 1009th float, NaNs and infinities included, and the special ones.
std::vector<float> floats() {
  std::vector<float> out;
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 1009)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  using Limits = std::numeric_limits<float>;
  for (float x : {0.0F, 1.0F, Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity(),
                  88.72284F, 88.7229F, -87.4F, -103.2F, -104.0F, Limits::quiet_NaN()})
    out.insert(out.end(), {x, -x});
  return out;
}

/// |got - want| in units of the last place of a float near `want`; infinite where only one is finite.
double ulps_between(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  const auto nearest = static_cast<float>(want);
  if (std::isinf(nearest) || std::isinf(got) || std::isnan(got)) return got == nearest ? 0 : INFINITY;
  const double size = std::max(std::abs(want), static_cast<double>(std::numeric_limits<float>::min()));
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, std::ilogb(size) - 23);
}

class Math : public AtEachLevel {};

TEST_P(Math, is_right_to_a_few_units_of_the_last_place) {
  const std::vector<float> x = floats();
  std::vector<float> y(x.size());
  for (const Function& f : functions) {
    f.fast(x, y);
    double worst = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (const double error = ulps_between(y[i], f.exact(static_cast<double>(x[i]))); error > worst) {
        worst = error;
        at = i;
      }
    EXPECT_LE(worst, f.ulps) << f.name << " of " << x[at] << " is " << y[at] << " where "
                             << f.exact(static_cast<double>(x[at])) << " is right";
    RecordProperty(f.name, std::to_string(worst));
  }
}

TEST(Exactly, keeps_what_is_exact) {
  for (float (*odd)(float) :
       {+[](float x) { return ops::math::tanh(x); }, +[](float x) { return ops::math::erf(x); }}) {
    EXPECT_TRUE(std::signbit(odd(-0.0F)));
    EXPECT_EQ(odd(-INFINITY), -1.0F);
  }
  EXPECT_EQ(ops::math::exp(0.0F), 1.0F);
  EXPECT_EQ(ops::math::log(1.0F), 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Levels, Math, each_level(), name_of_level);

}  // namespace
}  // namespace shardwright
