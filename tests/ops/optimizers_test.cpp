// Three steps of each optimizer on one weight, against the loops of torch/optim (PyTorch 1.13) in double.

#include <gtest/gtest.h>

#include "shardwright/graph/op.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

struct Case {
  std::string name;
  std::string op;
  std::string attributes;
  std::vector<double> weights;  // after each step; it starts at 1, the gradients are 0.5, -0.25 and 1
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op << " " << c.attributes; }

const std::vector<Case> cases = {
    {"plain", "sgd", "(rate=0.1)", {0.95, 0.975, 0.875}},
    {"decay", "sgd", "(rate=0.1, weight_decay=0.2)", {0.93, 0.9364, 0.817672}},
    {"plain", "momentum", "(rate=0.1)", {0.95, 0.93, 0.812}},
    {"nesterov",
     "momentum",
     "(rate=0.1, momentum=0.5, weight_decay=0.2, nesterov=true)",
     {0.895, 0.88815, 0.7045305}},
    {"plain", "adam", "(rate=0.1)", {0.900000002, 0.8733662987078463, 0.8075551396770898}},
    {"decay",
     "adam",
     "(rate=0.1, weight_decay=0.2, beta1=0.5, beta2=0.75)",
     {0.9000000014285714, 0.8595348703511746, 0.7708573956142906}},
    {"plain", "adamw", "(rate=0.1)", {0.899000002, 0.8714672987058463, 0.804784672376384}},
    {"decay",
     "adamw",
     "(rate=0.1, weight_decay=0.2, epsilon=0.5)",
     {0.93, 0.8996417143030245, 0.8441648698797963}},
};

class Optimizer : public testing::TestWithParam<Case> {};

TEST_P(Optimizer, follows_pytorch) {
  const OpDef& op = find_op(GetParam().op);
  const Attributes attributes = parse_sample(GetParam().attributes).attributes;
  const std::vector<double> gradients = {0.5, -0.25, 1};
  const auto scalar = [](DType dtype, double x) { return make_tensor({dtype, {}}, std::vector{x}); };
  std::vector<Tensor> kept{scalar(DType::f64, 1)};  // the weight, then the states
  for (std::size_t s = 0; s < op.optimizer->states.size(); ++s) kept.push_back(scalar(DType::f64, 0));
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    std::vector<Tensor> operands = kept;
    operands.insert(operands.begin() + 1, scalar(DType::f64, gradients[step]));
    if (op.optimizer->counts_steps) operands.push_back(scalar(DType::f32, static_cast<double>(step)));
    kept = evaluate(op, operands, attributes);
    EXPECT_NEAR(to_doubles(kept[0])[0], GetParam().weights[step], 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Optimizer, testing::ValuesIn(cases),
                         [](const auto& c) { return c.param.op + "_" + c.param.name; });

TEST(OptimizerRate, may_be_the_last_operand) {
  const auto tensor = [](DType dtype, double x) { return make_tensor({dtype, {}}, std::vector{x}); };
  const std::vector<Tensor> operands{tensor(DType::f64, 1), tensor(DType::f64, 0.5),
                                     tensor(DType::f64, 0.25)};
  EXPECT_EQ(to_doubles(evaluate(find_op("sgd"), operands, {})[0])[0], 0.875);
}

}  // namespace
}  // namespace shardwright
