// What parts side by side hide, and what they take for it.

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

constexpr int parts = 4;

/// Two micro-batches of two parts, and the same four one after the other.
struct Both {
  Estimate apart, side_by_side;
};

Both both(const std::string& set) {
  Model m = build_model(
      "llama2-7b:layers=4,batch=32",
      {.global_batch = {}, .precision = Precision::mixed(DType::bf16), .loss = "", .micro_batches = parts});
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
  m.graph.outputs.resize(1);
  PlanRequest request{.devices = 8,
                      .cluster = cluster_called("ascend910b:8"),
                      .parallel = Parallel::semi_auto_parallel,
                      .constraints = parse_constraints({"--set", set}),
                      .is_set = true};
  request.constraints.micro_batches = parts;
  Plan plan = make_plan(m.graph, request);
  const auto priced = [&] { return estimate(compile_pipeline(m.graph, plan), plan.cluster); };
  Both out{.apart = priced(), .side_by_side = {}};
  plan.settings.pipelining.micro_batches = parts / 2;
  plan.settings.pipelining.interleave = 2;
  out.side_by_side = priced();
  return out;
}

double received(const Estimate& e) { return static_cast<double>(e.bytes_communicated); }

/// All but the ends of passes; and nothing else gets shorter, nor moves more.
TEST(InterleavedParts, hide_what_operators_split_over_tp_wait_for) {
  for (const char* set :
       {"tp=8", "tp=8,sequence_parallel=1", "tp=8,sequence_parallel=1,recompute=selected"}) {
    SCOPED_TRACE(set);
    const auto [apart, side_by_side] = both(set);
    EXPECT_GT(apart.exposed_communication_seconds, 0.1 * apart.step_seconds());
    EXPECT_LT(side_by_side.exposed_communication_seconds, 0.2 * apart.exposed_communication_seconds);
    EXPECT_NEAR(side_by_side.compute_seconds, apart.compute_seconds, 0.02 * apart.compute_seconds);
    EXPECT_NEAR(received(side_by_side), received(apart), 1e-3 * received(apart));
  }
}

/// Of the two at once; parameters and states are as they were.
TEST(InterleavedParts, keep_the_activations_of_all) {
  const auto [apart, side_by_side] = both("tp=8");
  const auto of = [](const Estimate& e, MemoryKind kind) { return static_cast<double>(e.memory.of(kind)); };
  EXPECT_NEAR(of(side_by_side, MemoryKind::activations), 2 * of(apart, MemoryKind::activations),
              0.1 * of(apart, MemoryKind::activations));
  for (MemoryKind kind : {MemoryKind::parameters, MemoryKind::optimizer_state})
    EXPECT_EQ(of(side_by_side, kind), of(apart, kind));
}

/// Gathered and reduced once for both.
TEST(InterleavedParts, share_the_gathers_of_weights) {
  const auto [apart, side_by_side] = both("dp=8,zero=3");
  EXPECT_NEAR(received(side_by_side), received(apart) / 2, 0.02 * received(apart));
}

}  // namespace
}  // namespace shardwright
