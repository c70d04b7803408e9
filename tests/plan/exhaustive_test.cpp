#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

Graph chain(const std::string& model) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {});
  return m.graph;
}

double seconds(const Graph& graph, const Plan& plan) {
  return estimate(compile(graph, plan), cluster_called(plan.cluster)).step_seconds();
}

TEST(Exhaustive, is_never_dearer_than_propagation) {
  for (const char* model :
       {"matmul_chain:batch=8", "matmul_chain:batch=4096", "matmul_chain:batch=64,widths=512-512"})
    for (int devices : {2, 4}) {
      const Graph graph = chain(model);
      const Plan all = make_plan(graph, {.devices = devices, .search = "exhaustive", .price = step_seconds});
      const Plan some = make_plan(graph, {.devices = devices, .search = "propagation"});
      EXPECT_EQ(all.status, "optimal");
      EXPECT_LE(seconds(graph, all), seconds(graph, some)) << model << " on " << devices;
      EXPECT_DOUBLE_EQ(*all.lower_bound_seconds, seconds(graph, all));
    }
}

TEST(Exhaustive, keeps_what_the_user_fixed) {
  const Graph graph = chain("matmul_chain:batch=4096");
  const Annotations annotations = parse_annotations(R"({"matmul1": {"in": [[1, 2], [2, 1]]}})", "test");
  const Plan plan = make_plan(
      graph, {.devices = 2, .search = "exhaustive", .annotations = annotations, .price = step_seconds});
  EXPECT_EQ(plan.operators[0].in, (std::vector<std::vector<std::int64_t>>{{1, 2}, {2, 1}}));
  EXPECT_EQ(plan.operators[0].reason, "annotated");
}

TEST(Exhaustive, refuses_what_it_cannot_compare) {
  EXPECT_THROW(make_plan(chain("ffn"), {.devices = 8, .search = "exhaustive", .price = step_seconds}), Error);
}

}  // namespace
}  // namespace shardwright
