#include "shardwright/lower/split_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardwright/frontend/model.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

/// The stages of a chain of products and biases.
Pipeline chain(int stages, const std::string& schedule, double clip_norm = 0) {
  Model m = build_model("ffn:batch=8,widths=6-6-6-6-6", {.global_batch = {}, .loss = "", .micro_batches = 4});
  OptimizerChoice optimizer{"sgd", {{"rate", 0.01}}};
  optimizer.clip_norm = clip_norm;
  add_train_step(m.graph, m.loss, optimizer);
  m.graph.outputs.resize(1);
  return compile_pipeline(
      m.graph,
      make_plan(m.graph,
                {.model = "ffn",
                 .devices = stages,
                 .constraints = constraints_of({.pipelining = {schedule_called(schedule), stages, 4}})}));
}

/// How often an operator stands in a phase.
int count(const Graph& graph, std::string_view op, Phase phase) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const Node& node) { return node.op->name == op && node.phase == phase; }));
}

TEST(SplitBackward, lets_gradients_of_weights_wait) {
  const Pipeline whole = chain(2, "1f1b"), cut = chain(2, "zero-bubble");
  for (int s = 0; s < 2; ++s) {
    const Graph &before = whole.stage(s).graph, &after = cut.stage(s).graph;
    EXPECT_EQ(count(before, "matmul", Phase::weights), 0);
    const int layers = count(after, "matmul", Phase::forward), all = count(before, "matmul", Phase::backward);
    EXPECT_GT(layers, 0);
    // Nobody waits for the first stage, of whose input there is no gradient. Of others one for each weight waits.
    EXPECT_EQ(count(after, "matmul", Phase::weights), s == 0 ? 2 * layers - 1 : layers);
    EXPECT_EQ(count(after, "matmul", Phase::backward) + count(after, "matmul", Phase::weights), all);
  }
}

/// Their norm hangs on all of them, and is sent, but in the update.
TEST(SplitBackward, lets_them_wait_where_gradients_are_clipped) {
  const Pipeline cut = chain(2, "zero-bubble", 0.5);
  for (int s = 0; s < 2; ++s) {
    const Graph& graph = cut.stage(s).graph;
    const int layers = count(graph, "matmul", Phase::forward);
    EXPECT_EQ(count(graph, "matmul", Phase::weights), s == 0 ? 2 * layers - 1 : layers);
  }
}

/// Nothing of the first part reads the second, and what is sent is of the first.
TEST(SplitBackward, leaves_what_another_stage_waits_for_in_front) {
  const Pipeline cut = chain(4, "zero-bubble:2");
  for (const Program& program : cut.stages) {
    EXPECT_NO_THROW(verify(program.graph));
    for (ValueId v : program.graph.sends)
      EXPECT_NE(program.graph.node(program.graph.value(v).producer).phase, Phase::weights);
  }
}

}  // namespace
}  // namespace shardwright
