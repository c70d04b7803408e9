#include "shardwright/frontend/network.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/frontend/modules.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/calls.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// By phase, the casts of gradients to f32: those of two weights and a bias, for the last bias is the loss's.
std::pair<int, int> casts_of(const std::string& reduce_precision) {
  Dense first("first", 8, 8), last("last", 8, 4);
  const auto forward = [&](const std::vector<Traced>& v) {
    return LossAndAux{MeanSquaredError{}(last(first(v[0])), v[1])};
  };
  const PlannedNetwork network =
      plan_network(forward, {{"x", {DType::bf16, {4, 8}}}, {"y", {DType::f32, {4, 4}}}}, sgd(0.1),
                   {.devices = 2,
                    .parallel = Parallel::data_parallel,
                    .precision = Precision::mixed(DType::bf16),
                    .reduce_precision = reduce_precision});
  std::pair<int, int> out;
  for (const Node& node : network.graph.nodes) {
    if (node.op != &cast_op() || network.graph.value(node.results.front()).type.dtype != DType::f32) continue;
    out.first += node.phase == Phase::backward;
    out.second += node.phase == Phase::update;
  }
  EXPECT_EQ(network.plan.origin.optimizer.reduces_short, reduce_precision == "short");
  return out;
}

TEST(ReducePrecision, of_the_options_says_where_gradients_are_cast) {
  EXPECT_EQ(casts_of("f32"), (std::pair{3, 0}));
  EXPECT_EQ(casts_of("short"), (std::pair{0, 3}));
  EXPECT_EQ(error_of([] { casts_of("bf16"); }), "reduce_precision bf16: there are f32, short");
}

/// What a network in `precision` scales its loss with, as options and the optimizer say.
std::string loss_scale_of(const char* precision, const std::string& option, const LossScale& own = {}) {
  Dense dense("dense", 8, 4);
  const auto forward = [&](const std::vector<Traced>& v) {
    return LossAndAux{MeanSquaredError{}(dense(v[0]), v[1])};
  };
  const Precision of_network = *precision_called(precision);
  const DType dtype = of_network.compute;
  OptimizerChoice optimizer = sgd(0.1);
  optimizer.loss_scale = own;
  const PlannedNetwork network =
      plan_network(forward, {{"x", {dtype, {4, 8}}}, {"y", {of_network.kept(), {4, 4}}}}, optimizer,
                   {.precision = of_network, .loss_scale = option});
  const LossScale& scale = network.plan.origin.optimizer.loss_scale;
  EXPECT_EQ(std::ranges::count(network.graph.values, loss_scale_state, &Value::name), scale.is_on());
  return to_text(scale);
}

TEST(LossScaleOption, is_dynamic_by_default_where_gradients_are_f16) {
  for (const char* name : {"fp16", "products-fp16"}) EXPECT_EQ(loss_scale_of(name, ""), "dynamic") << name;
  for (const char* name : {"f32", "bf16", "products-bf16", "pure-fp16", "f64"})
    EXPECT_EQ(loss_scale_of(name, ""), "none") << name;
}

TEST(LossScaleOption, says_more_than_the_optimizer_and_that_more_than_the_precision) {
  const LossScale own{.initial = 128};
  EXPECT_EQ(loss_scale_of("fp16", "", own), "128");
  EXPECT_EQ(loss_scale_of("f32", "", own), "128");
  EXPECT_EQ(loss_scale_of("fp16", "none", own), "none");
  EXPECT_EQ(loss_scale_of("f32", "64"), "64");
  EXPECT_EQ(error_of([] { loss_scale_of("f32", "much"); }),
            "loss_scale much: should be dynamic, none or a number from 1e-30 to 1e30");
}

}  // namespace
}  // namespace shardwright
