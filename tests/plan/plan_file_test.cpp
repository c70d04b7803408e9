// Plan files of now and of before.
#include <gtest/gtest.h>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/random_plan.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// The step of the network that `plan` names.
Pipeline step_of(const Plan& plan) {
  Model model = build_model(plan.model, {.micro_batches = plan.settings.pipelining.micro_batches});
  add_train_step(model.graph, model.loss, plan.origin.optimizer);
  return compile_pipeline(model.graph, plan);
}

/// As it is read from its own file.
Plan again(const Plan& plan) {
  const std::string text = to_json(plan);
  Plan out = parse_plan(text, "again");
  EXPECT_EQ(to_json(out), text);
  EXPECT_EQ(out.stages, plan.stages);
  EXPECT_EQ(out.settings, plan.settings);
  EXPECT_EQ(out.cluster, plan.cluster);
  return out;
}

TEST(PlanFile, of_format_1_and_one_stage_is_read) {
  const Plan plan = load_plan("tests/plan/format_1/one_stage.json");
  ASSERT_EQ(plan.stages.size(), 1U);
  EXPECT_EQ(plan.cluster, cluster_called("cpu:4"));
  EXPECT_EQ(plan.settings.pipelining, (Pipelining{.micro_batches = 2}));
  EXPECT_EQ(plan.stages[0].devices(), 4);
  EXPECT_EQ(plan.stages[0].layouts.at("input"), "[dp, -]");
  EXPECT_EQ(step_of(plan).rank_count(), 4);
  EXPECT_EQ(step_of(again(plan)).micro_batches(), 2);
}

TEST(PlanFile, of_format_1_and_several_stages_is_read) {
  const Plan plan = load_plan("tests/plan/format_1/stages.json");
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.cluster, cluster_called("a100-80g:4"));
  EXPECT_EQ(plan.settings.pipelining, (Pipelining{.stages = 2, .micro_batches = 4}));
  EXPECT_EQ(plan.settings.optimizer_parallel, (OptimizerParallel{1, 0}));
  EXPECT_EQ(plan.stages[1].devices(), 2);
  EXPECT_EQ(plan.stages[1].layouts.at("matmul2"), "[-, -]");
  EXPECT_EQ(plan.stages[1].operators[0].name, "matmul3");
  EXPECT_EQ(step_of(plan).stage_count(), 2);
  EXPECT_EQ(step_of(again(plan)).rank_count(), 4);
}

/// What the forward moves on is read in a copy, where micro-batches follow each other.
TEST(PlanFile, of_format_1_that_accumulates_is_for_the_network_that_does) {
  Graph graph = parse_graph(R"(%x = input f32[4, 8]
%label = input f32[4, 8]
%w = param f32[8, 8]
%count = state f32[]
%one = fill (shape=[], value=1.0, dtype=f32)
%next = add %count, %one
%a = matmul %x, %w
%b = mul %a, %count
%loss = mean_squared_error %b, %label
output %loss
update %count <- %next
)");
  add_train_step(graph, graph.outputs.front(), {"sgd", {{"rate", 0.1}}});
  PlanRequest request{.model = "counted", .devices = 2, .parallel = Parallel::data_parallel};
  request.constraints.micro_batches = 2;
  Plan plan = make_plan(graph, request);
  EXPECT_EQ(plan.fingerprint, fingerprint_of(graph));
  EXPECT_NO_THROW(apply(plan, graph));
  plan.fingerprint = fingerprint_of(accumulated(graph, 2).graph);
  EXPECT_NE(plan.fingerprint, fingerprint_of(graph));
  EXPECT_NO_THROW(apply(plan, graph));
  plan.fingerprint = fingerprint_of(accumulated(graph, 3).graph) + "0";
  EXPECT_THROW(apply(plan, graph), Error);
}

TEST(PlanFile, of_format_1_whose_cluster_is_gone_names_the_file) {
  EXPECT_EQ(error_of([] {
              parse_plan(R"({"format":1,"fingerprint":"x","devices":2,"cluster":"gone.yaml","mesh":{"dp":2},)"
                         R"("operators":[]})",
                         "p.json");
            }),
            "p.json: gone.yaml: cannot be read: No such file or directory");
}

TEST(PlanFile, is_read_back_as_it_was_written) {
  Model model = build_model("ffn:widths=16-16-8,batch=16", {.micro_batches = 2});
  add_train_step(model.graph, model.loss, {"adam", {{"rate", 0.1}}});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Plan plan = testing::random_pipeline(model.graph, 8, 2, seed);
    plan.cluster.memory_bytes -= static_cast<std::int64_t>(seed);
    again(plan);
  }
}

}  // namespace
}  // namespace shardwright
