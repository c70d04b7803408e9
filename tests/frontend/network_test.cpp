#include "shardwright/frontend/network.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace shardwright
