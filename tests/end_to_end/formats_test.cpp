// Training with tensors in the formats of the CPU's kernels, which f32 images get and f64 ones do not.

#include <gtest/gtest.h>

#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/session.h"
#include "tests/support/compare.h"
#include "tests/support/samples.h"
#include "tests/support/training_run.h"

namespace shardwright::testing {
namespace {

// Norms over few pixels would make the smallest difference large: ResNet-50 on small images is chaotic.
const char* const model = "resnet18:batch=16,image=64,width=16";

TrainingRun steps_in(DType precision) {
  return {.model = model,
          .file = {},
          .optimizer = {"momentum", {{"rate", 0.001}, {"momentum", 0.9}}},
          .precision = precision,
          .steps = 1};
}

Program program() {
  const Graph graph = build_model(model).graph;
  return compile(graph, make_plan(graph, {.devices = 1, .parallel = Parallel::stand_alone}),
                 {.formats = cpu_formats});
}

TEST(Formats, give_the_step_that_row_major_tensors_give) {
  const auto want = run_alone(steps_in(DType::f64));
  const TrainingRun run = steps_in(DType::f32);
  const Tolerance tolerance{.losses = 1e-5, .weights = 1e-4};
  expect_same(run_alone(run), want, tolerance);
  expect_same(run_planned(run, {.devices = 4, .parallel = Parallel::data_parallel}), want, tolerance);
  for (std::uint64_t seed : {1, 2}) expect_same(run_random(run, 4, seed), want, tolerance);
}

TEST(Formats, are_seen_by_nobody_outside) {
  Session session(program());
  const Graph& graph = session.program().graph;
  const Value& weight = graph.value(graph.find("layer1.0.conv2.weight"));
  ASSERT_FALSE(weight.format.is_row_major());
  const Tensor all = draw({{{weight.type}}, {}}, Values::reals, 1)[0];
  session.set(weight.name, all);
  EXPECT_TRUE(is_close(session.get(weight.name), all));
  for (ValueId v : graph.outputs) EXPECT_TRUE(graph.value(v).format.is_row_major());
}

// Between convolutions nothing is brought from one format into another: only what comes in and goes out.
TEST(Formats, stay_from_layer_to_layer) {
  const Program p = program();
  int blocked = 0, brought = 0;
  for (const Node& node : p.graph.nodes) {
    const Value& value = p.graph.value(node.results[0]);
    blocked += value.type.shape.size() == 4 && !value.format.is_row_major();
    brought += node.op->name == "reformat";
  }
  EXPECT_GT(blocked, 50);
  EXPECT_LE(brought, 1);  // behind the last norm, before the mean over pixels
}

}  // namespace
}  // namespace shardwright::testing
