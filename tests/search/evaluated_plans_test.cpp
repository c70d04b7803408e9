// Searches that share what programs take find what each finds alone.
#include "shardwright/search/planning/evaluated_plans.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

Graph step_of_two_layers() {
  Model m = build_model("gpt:layers=2,hidden=64,heads=4,vocab=128,seq=16,batch=8", {});
  add_train_step(m.graph, m.loss, {.name = "adamw"});
  return std::move(m.graph);
}

PlanRequest recursive_request() {
  PlanRequest out{
      .model = "test", .devices = 4, .cluster = cluster_called("a100-80g:4"), .search = "recursive"};
  out.options.tries_sparing = true;
  out.verifies = false;
  return out;
}

Evaluation evaluation_of(const Graph& graph, const Plan& plan, const PlanRequest& request) {
  return evaluate(compile_pipeline(graph, plan, {.verifies = false}), *request.cluster,
                  {.memory_cap = request.options.memory_cap});
}

TEST(EvaluatedPlans, are_the_same_under_every_limit_level_and_price) {
  const Graph graph = step_of_two_layers();
  EvaluatedPlans shared;
  PlanRequest request = recursive_request();
  const std::int64_t freely = evaluation_of(graph, make_plan(graph, request), request).estimate.arena_bytes;
  for (const char* zero : {"0", "1", "3"})
    for (const double share : {1.0, 0.8, 0.5, 0.3})
      for (const double coeff : {0.1, 1.0}) {
        request.constraints = parse_constraints({"--fix", std::string("zero=") + zero});
        request.options.memory_cap = static_cast<std::int64_t>(share * static_cast<double>(freely));
        request.options.mem_coeff = coeff;
        request.evaluated = nullptr;
        const Plan alone = make_plan(graph, request);
        request.evaluated = &shared;
        const Plan together = make_plan(graph, request);
        EXPECT_EQ(together.stages, alone.stages) << zero << ' ' << share << ' ' << coeff;
      }
}

TEST(EvaluatedPlans, are_told_apart_by_settings_and_by_choices) {
  EvaluatedPlans plans;
  const Settings settings;
  Settings other = settings;
  other.overlap_tensor = true;
  const Choices whole{.meshes = {Mesh{{{"a", 2}}}}, .strategies = {Strategy{}, std::nullopt}, .layouts = {}};
  Choices further = whole;
  further.strategies[1] = Strategy{};
  const Evaluation* known = plans.add(settings, whole, {.cap_bytes = 7});
  EXPECT_EQ(plans.find(settings, whole), known);
  EXPECT_EQ(known->cap_bytes, 7);
  EXPECT_EQ(plans.find(other, whole), nullptr);
  EXPECT_EQ(plans.find(settings, further), nullptr);
  EXPECT_EQ(plans.find(settings, std::vector<StagePlan>{}), nullptr);
  plans.add(settings, further, {.cap_bytes = 8});
  EXPECT_EQ(plans.find(settings, whole)->cap_bytes, 7);  // and stays where it is
}

}  // namespace
}  // namespace shardwright
