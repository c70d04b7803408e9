// Point-wise operators against PyTorch, at and around their kinks and where exponentials overflow.

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/graph/builder.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

using Doubles = std::vector<double>;

struct Case {
  std::string op;
  Attributes attributes;
  Doubles y, dx;  // of x below, with dy = 1; by PyTorch 1.13
};

const Doubles x{-8, -3, -1.5, -0.25, 0, 0.5, 1, 3, 9};

const std::vector<Case> cases = {
    {"silu",
     {},
     {-0.0026828010437318, -0.1422776195327004, -0.2736382857095345, -0.1094558747785505, 0.0,
      0.3112296656009273, 0.7310585786300049, 2.8577223804672998, 8.998889448816124},
     {-0.0023465512355853, -0.0881041060151696, -0.0412941542991429, 0.3762899784298023, 0.5,
      0.7399611873026519, 0.9276705118714869, 1.0881041060151693, 1.0009870195718982}},
    // At -3, a corner, PyTorch has 0.
    {"hard_swish",
     {},
     {-0.0, -0.0, -0.375, -0.1145833333333333, 0.0, 0.2916666666666667, 0.6666666666666666, 3.0, 9.0},
     {0.0, -0.5, 0.0, 0.4166666666666667, 0.5, 0.6666666666666666, 0.8333333333333333, 1.0, 1.0}},
    // Its corners are among x by default, and rounding decides on which side they lie.
    {"hard_sigmoid",
     {},
     {0.0, 0.0, 0.25, 0.4583333333333333, 0.5, 0.5833333333333334, 0.6666666666666666, 1.0, 1.0},
     {}},
    {"hard_sigmoid",
     {{"slope", 0.25}},
     {0.0, 0.0, 0.125, 0.4375, 0.5, 0.625, 0.75, 1.0, 1.0},
     {0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.0, 0.0}},
    {"leaky_relu",
     {},
     {-0.08, -0.03, -0.015, -0.0025, 0.0, 0.5, 1.0, 3.0, 9.0},
     {0.01, 0.01, 0.01, 0.01, 0.01, 1.0, 1.0, 1.0, 1.0}},
    {"leaky_relu",
     {{"slope", 0.2}},
     {-1.6, -0.6000000000000001, -0.3, -0.05, 0.0, 0.5, 1.0, 3.0, 9.0},
     {0.2, 0.2, 0.2, 0.2, 0.2, 1.0, 1.0, 1.0, 1.0}},
    {"elu",
     {},
     {-0.9996645373720975, -0.950212931632136, -0.7768698398515702, -0.2211992169285951, 0.0, 0.5, 1.0, 3.0,
      9.0},
     {0.0003354626279025, 0.0497870683678639, 0.2231301601484298, 0.7788007830714049, 1.0, 1.0, 1.0, 1.0,
      1.0}},
    {"elu",
     {{"alpha", 0.5}},
     {-0.4998322686860487, -0.475106465816068, -0.3884349199257851, -0.1105996084642976, 0.0, 0.5, 1.0, 3.0,
      9.0},
     {0.0001677313139513, 0.024893534183932, 0.1115650800742149, 0.3894003915357024, 0.5, 1.0, 1.0, 1.0,
      1.0}},
    {"softplus",
     {},
     {0.0003354063728958, 0.0485873515737421, 0.2014132779827524, 0.5759394198788436, 0.6931471805599453,
      0.9740769841801067, 1.3132616875182228, 3.048587351573742, 9.000123402189724},
     {0.0003353501304665, 0.0474258731775668, 0.1824255238063563, 0.4378234991142019, 0.5, 0.6224593312018546,
      0.7310585786300049, 0.9525741268224333, 0.9998766054240138}},
    {"clip",
     {{"max", 3.0}, {"min", -1.5}},
     {-1.5, -1.5, -1.5, -0.25, 0.0, 0.5, 1.0, 3.0, 3.0},
     {0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0}},
    {"power",
     {{"exponent", 3.0}},
     {-512.0, -27.0, -3.375, -0.015625, 0.0, 0.125, 1.0, 27.0, 729.0},
     {192.0, 27.0, 6.75, 0.1875, 0.0, 0.75, 3.0, 27.0, 243.0}},
    {"erf",
     {},
     {-1.0, -0.9999779095030014, -0.9661051464753108, -0.276326390168237, 0.0, 0.5204998778130465,
      0.8427007929497149, 0.9999779095030014, 1.0},
     {0.0, 0.0001392530519467, 0.1189302892236294, 1.0600141293761143, 1.1283791670955126, 0.8787825789354448,
      0.4151074974205947, 0.0001392530519467, 0.0}},
    {"sin",
     {},
     {-0.9893582466233818, -0.1411200080598672, -0.9974949866040544, -0.2474039592545229, 0.0,
      0.479425538604203, 0.8414709848078965, 0.1411200080598672, 0.4121184852417566},
     {-0.1455000338086135, -0.9899924966004454, 0.0707372016677029, 0.9689124217106447, 1.0,
      0.8775825618903728, 0.5403023058681398, -0.9899924966004454, -0.9111302618846769}},
    {"cos",
     {},
     {-0.1455000338086135, -0.9899924966004454, 0.0707372016677029, 0.9689124217106447, 1.0,
      0.8775825618903728, 0.5403023058681398, -0.9899924966004454, -0.9111302618846769},
     {0.9893582466233818, 0.1411200080598672, 0.9974949866040544, 0.2474039592545229, -0.0,
      -0.479425538604203, -0.8414709848078965, -0.1411200080598672, -0.4121184852417566}},
};

Tensor doubles(const Doubles& values) {
  return make_tensor({DType::f64, {static_cast<std::int64_t>(values.size())}}, values);
}

/// The derivative of result 0 in operand 0 at x, by the operator's own gradient.
Tensor derivative(const Case& c) {
  Graph graph;
  Builder builder(graph);
  const Type type = doubles(x).type();
  const ValueId in = builder.leaf(OpKind::input, "x", type), dy = builder.leaf(OpKind::input, "dy", type);
  const ValueId y = builder.call(c.op, {in}, c.attributes);
  Gradient gradient(builder, graph.value(y).producer, {dy});
  const ValueId dx = find_op(c.op).gradient(gradient)[0];
  const auto values = evaluate(graph, {{"x", doubles(x)}, {"dy", doubles(Doubles(x.size(), 1))}});
  return values[static_cast<std::size_t>(dx.index)];
}

TEST(PointwiseFunctions, are_those_of_pytorch) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op + to_text(c.attributes));
    EXPECT_TRUE(
        is_close(evaluate(find_op(c.op), std::vector{doubles(x)}, c.attributes)[0], doubles(c.y), 1e-14));
    if (c.dx.empty()) continue;
    EXPECT_TRUE(is_close(derivative(c), doubles(c.dx), 1e-14));
  }
}

Tensor run(const char* op, const std::vector<Tensor>& operands) {
  return evaluate(find_op(op), operands, {})[0];
}

TEST(PointwiseFunctions, are_finite_for_large_operands) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor large = make_tensor({dtype, {2}}, Doubles{-1000, 1000});
    EXPECT_EQ(to_doubles(run("softplus", {large})), (Doubles{0, 1000}));
    EXPECT_EQ(to_doubles(run("elu", {large})), (Doubles{-1, 1000}));
    const Tensor target = make_tensor({dtype, {2}}, Doubles{1, 0});
    EXPECT_EQ(to_doubles(run("sigmoid_cross_entropy", {large, target})), (Doubles{1000, 1000}));
  }
}

/// 1 + e^x is 1 and e^x - 1 is x to rounding, but what is asked for is neither 0 nor rough.
TEST(PointwiseFunctions, lose_nothing_where_terms_cancel) {
  const Tensor small = make_tensor({DType::f32, {2}}, Doubles{-30, -1e-6});
  EXPECT_NEAR(to_doubles(run("softplus", {small}))[0] / std::log1p(std::exp(-30.0)), 1, 5e-7);
  EXPECT_NEAR(to_doubles(run("elu", {small}))[1] / std::expm1(-1e-6), 1, 5e-7);
}

TEST(PointwiseFunctions, round_to_integers) {
  const Tensor halves = doubles({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5});
  EXPECT_EQ(to_doubles(run("round", {halves})), (Doubles{-2, -2, 0, 0, 2, 2}));
  EXPECT_EQ(to_doubles(run("floor", {halves})), (Doubles{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(to_doubles(run("ceil", {halves})), (Doubles{-2, -1, 0, 1, 2, 3}));
}

/// loss and derivative of binary_cross_entropy_with_logits
TEST(SigmoidCrossEntropy, is_that_of_pytorch) {
  const Tensor target = doubles({0, 1, 0.5, 0.25, 1, 0, 0.75, 1, 0});
  EXPECT_TRUE(is_close(run("sigmoid_cross_entropy", {doubles(x), target}),
                       doubles({0.0003354063728956624, 3.048587351573742, 0.9514132779827524,
                                0.6384394198788437, 0.6931471805599453, 0.9740769841801067,
                                0.5632616875182228, 0.048587351573741965, 9.000123402189724}),
                       1e-14));
  EXPECT_TRUE(is_close(
      run("sigmoid_cross_entropy_grad", {doubles(Doubles(9, 1)), doubles(x), target}),
      doubles({0.0003353501304664781, -0.9525741268224333, -0.31757447619364365, 0.18782349911419193, -0.5,
               0.6224593312018546, -0.018941421369995104, -0.047425873177566635, 0.9998766054240137}),
      1e-14));
}

TEST(Comparisons, are_false_with_nan_but_for_not_equal) {
  const Tensor a = doubles({1, 2, 2, NAN}), b = doubles({2, 2, 1, 1});
  const std::vector<std::pair<const char*, Doubles>> want = {
      {"equal", {0, 1, 0, 0}},      {"not_equal", {1, 0, 1, 1}}, {"less", {1, 0, 0, 0}},
      {"less_equal", {1, 1, 0, 0}}, {"greater", {0, 0, 1, 0}},   {"greater_equal", {0, 1, 1, 0}}};
  for (const auto& [op, truths] : want) {
    EXPECT_EQ(run(op, {a, b}), make_tensor({DType::boolean, {4}}, truths)) << op;
    EXPECT_EQ(run(op, {convert(a, DType::bf16), convert(b, DType::bf16)}),
              make_tensor({DType::boolean, {4}}, truths))
        << op;
  }
}

TEST(Where, takes_from_either_and_never_multiplies) {
  const Tensor is_finite = make_tensor({DType::boolean, {2}}, Doubles{1, 0});
  EXPECT_EQ(to_doubles(run("where", {is_finite, doubles({1, NAN}), doubles({INFINITY, 2})})),
            (Doubles{1, 2}));
}

}  // namespace
}  // namespace shardwright
