// One way to a plan: what is chosen is written onto the graph, and told in names.
#include "shardwright/search/planning/make_plan.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"

namespace shardwright {
namespace {

struct Case {
  const char* name;
  const char* model;
  PlanRequest request;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class MakePlan : public testing::TestWithParam<Case> {};

TEST_P(MakePlan, applying_what_is_told_makes_the_graph_that_was_planned) {
  PlanRequest request = GetParam().request;
  if (request.search.empty()) request.search = "recursive";
  Model model =
      build_model(GetParam().model, {.micro_batches = settings_of(request).pipelining.micro_batches});
  add_train_step(model.graph, model.loss, {"adam", {{"rate", 0.1}}});
  const Planned made = make_planned(model.graph, request);
  const Plan read = parse_plan(to_json(made.plan), "plan");
  PlannedStages applied = apply(read, model.graph);
  ASSERT_EQ(made.stages.size(), applied.stages.size());
  for (std::size_t s = 0; s < made.stages.size(); ++s) {
    const PlannedGraph graph = completed(std::move(applied.stages[s]), read.cluster_of(s));
    EXPECT_EQ(to_text(graph.graph), to_text(made.stages[s].graph)) << "stage " << s;
    EXPECT_EQ(graph.update_layouts, made.stages[s].update_layouts);
    EXPECT_EQ(graph.micro_batches.lanes, made.stages[s].micro_batches.lanes);
  }
  EXPECT_EQ(make_plan(model.graph, request).stages, made.plan.stages);
}

constexpr const char* decoder = "llama:layers=2,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=64,seq=16,batch=8";

INSTANTIATE_TEST_SUITE_P(
    All, MakePlan,
    testing::Values(
        Case{"alone", "ffn", {.parallel = Parallel::stand_alone}}, Case{"recursive", decoder, {.devices = 8}},
        Case{"sharded_in_groups",
             decoder,
             {.devices = 8,
              .parallel = Parallel::data_parallel,
              .constraints =
                  constraints_of({.optimizer_parallel = {.level = 1, .threshold = 0, .group = 2}})}},
        Case{"weights",
             decoder,
             {.devices = 8, .constraints = constraints_of({.optimizer_parallel = {3, 0}})}},
        Case{"accumulated",
             decoder,
             {.devices = 4, .constraints = constraints_of({.pipelining = {.micro_batches = 2}})}},
        Case{
            "stages",
            decoder,
            {.devices = 4, .constraints = constraints_of({.pipelining = {.stages = 2, .micro_batches = 4}})}},
        Case{"chunks",
             decoder,
             {.devices = 2, .constraints = constraints_of({.pipelining = {Schedule::interleaved(2), 2, 4}})}},
        Case{"propagation", "dense_matmul:form=transformer", {.devices = 8, .search = "propagation"}},
        Case{"dynamic", decoder, {.devices = 8, .search = "dynamic"}},
        Case{"integer", decoder, {.devices = 4, .search = "integer"}}),
    [](const auto& tested) { return tested.param.name; });

/// Of two nodes of 6 devices the second of three stages has two devices each.
TEST(Plan, knows_where_the_devices_of_a_stage_are) {
  Plan plan{.cluster = cluster_called("a100-80g:2x6"),
            .settings = {.pipelining = {Schedule::interleaved(2), 3, 4}},
            .stages = {}};
  const StagePlan four{.meshes = {Mesh{{{"dp", 4}}}}};
  plan.stages.assign(6, four);
  EXPECT_EQ(plan.devices(), 12);
  EXPECT_EQ(plan.cluster_of(0).nodes, 1);
  EXPECT_EQ(plan.cluster_of(1).nodes, 2);
  EXPECT_EQ(plan.cluster_of(2).nodes, 1);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(plan.cluster_of(s), plan.cluster_of(s + 3));
}

}  // namespace
}  // namespace shardwright
