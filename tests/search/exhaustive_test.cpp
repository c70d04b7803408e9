#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

Graph chain(const std::string& model) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {});
  return m.graph;
}

double seconds(const Graph& graph, const Plan& plan) {
  return estimate(compile(graph, plan), plan.cluster).step_seconds();
}

TEST(Exhaustive, is_never_dearer_than_propagation) {
  for (const char* model :
       {"matmul_chain:batch=8", "matmul_chain:batch=4096", "matmul_chain:batch=64,widths=512-512"})
    for (int devices : {2, 4}) {
      const Graph graph = chain(model);
      const Plan all = make_plan(graph, {.devices = devices, .search = "exhaustive"});
      const Plan some = make_plan(graph, {.devices = devices, .search = "propagation"});
      EXPECT_EQ(all.status, "optimal");
      EXPECT_LE(seconds(graph, all), seconds(graph, some)) << model << " on " << devices;
      EXPECT_DOUBLE_EQ(*all.lower_bound_seconds, seconds(graph, all));
    }
}

TEST(Exhaustive, keeps_what_the_user_fixed) {
  const Graph graph = chain("matmul_chain:batch=4096");
  const Constraints annotations = parse_annotations(R"({"matmul1": {"in": [[1, 2], [2, 1]]}})", "test");
  const Plan plan = make_plan(graph, {.devices = 2, .search = "exhaustive", .constraints = annotations});
  EXPECT_EQ(plan.stages[0].operators[0].in, (std::vector<std::vector<std::int64_t>>{{1, 2}, {2, 1}}));
  EXPECT_EQ(plan.stages[0].operators[0].reason, "annotated");
}

TEST(Exhaustive, fully_use_devices_compares_only_what_uses_all_or_none) {
  // On [dp=2, tp=2] each axis goes to m, k, n or nowhere, and not both to m or to n: 16 - 2 strategies of the
  // matmul, 9 - 2 of the loss; of them 7 and 2 use both axes, and one uses none.
  const Graph graph = chain("matmul_chain:batch=2,widths=4-2");
  const auto parts = [&](const SearchOptions& options) {
    return make_plan(graph, {.devices = 4, .search = "exhaustive", .options = options}).compared;
  };
  EXPECT_TRUE(parts({}).starts_with("compared 98 plans")) << parts({});
  EXPECT_TRUE(parts({.fully_use_devices = true}).starts_with("compared 24 plans"))
      << parts({.fully_use_devices = true});
}

TEST(Exhaustive, elementwise_follow_leaves_out_what_is_redistributed) {
  // One axis of 2: the matmul has m, k, n or none, relu two dims or none, the mean two dims (both summed) or none.
  // relu is read as it lies if the mean has the same split: 3 pairs of 9, each with 4 matmuls.
  Graph graph = parse_graph(R"(
%x = input f32[2, 4]
%w = param f32[4, 2]
%y = matmul %x, %w
%z = relu %y
%loss = reduce_mean %z
output %loss
)");
  add_train_step(graph, graph.outputs.front(), {});
  const auto compared = [&](const SearchOptions& options) {
    return make_plan(graph, {.devices = 2, .search = "exhaustive", .options = options}).compared;
  };
  EXPECT_TRUE(compared({}).starts_with("compared 36 plans")) << compared({});
  EXPECT_TRUE(compared({.elementwise_follow = true}).starts_with("compared 12 plans"))
      << compared({.elementwise_follow = true});
}

TEST(Exhaustive, takes_the_fastest_plan_that_fits) {
  const Graph graph = chain("matmul_chain:batch=8");
  const auto plan = [&](std::optional<std::int64_t> cap) {
    return make_plan(graph, {.devices = 2, .search = "exhaustive", .options = {.memory_cap = cap}});
  };
  const auto bytes = [&](const Plan& p) { return compile(graph, p).arena_bytes; };
  const Plan all = plan({});
  EXPECT_EQ(all.compared.find("fit"), std::string::npos) << all.compared;
  const Plan others = plan(bytes(all) - 1);
  EXPECT_LT(bytes(others), bytes(all));
  EXPECT_GE(seconds(graph, others), seconds(graph, all));
  EXPECT_DOUBLE_EQ(*others.lower_bound_seconds, seconds(graph, others));
  EXPECT_NE(others.compared.find(", of which "), std::string::npos) << others.compared;
  // Where nothing fits, what misses least; nothing is proven of what would.
  const Plan none = plan(1);
  EXPECT_LE(bytes(none), bytes(others));
  EXPECT_EQ(bytes(plan(bytes(none))), bytes(none));
  EXPECT_FALSE(none.lower_bound_seconds.has_value());
}

TEST(Exhaustive, refuses_what_it_cannot_compare) {
  EXPECT_THROW(make_plan(chain("ffn"), {.devices = 8, .search = "exhaustive"}), Error);
}

}  // namespace
}  // namespace shardwright
