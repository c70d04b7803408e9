// What plans keep on the host: copies that compute hides, and no more than the host has.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

StepOf step_of(const std::string& model) {
  return [=](int micro_batches) {
    Model m = build_model(model, {.precision = {DType::bf16}, .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  };
}

Evaluation judged(const StepOf& step, const Plan& plan) {
  return evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan), plan.cluster);
}

Evaluation with_offload(const StepOf& step, const Cluster& cluster, const std::string& offload) {
  PlanRequest request{.model = "test", .cluster = cluster, .parallel = Parallel::data_parallel};
  request.devices = cluster.devices();
  request.constraints = parse_constraints({"test", "recompute=selected,offload={" + offload + "}"});
  return judged(step, make_plan(step, request));
}

/// Layers of which large and small activations follow each other: one alone is not hidden by what stands next to it.
const std::string layers =
    "llama:layers=24,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=32000,seq=4096,batch=8";

TEST(OffloadedPlans, copies_of_activations_hide_behind_compute_where_the_link_is_fast_enough) {
  const StepOf step = step_of(layers);
  const Cluster cluster = cluster_called("h100:1");
  const Estimate on_device = with_offload(step, cluster, "none").estimate;
  const Estimate on_host = with_offload(step, cluster, "activations").estimate;
  ASSERT_GT(on_host.host_seconds, 0.5 * on_device.step_seconds());  // both ways: there is much to be hidden
  EXPECT_LT(on_host.step_seconds(), 1.02 * on_device.step_seconds());
  EXPECT_LT(on_host.arena_bytes, on_device.arena_bytes);
}

/// A link that all activations keep waiting carries half of them beside the forward, if they come evenly.
TEST(OffloadedPlans, half_of_activations_keep_up_where_all_do_not) {
  const StepOf step = step_of(layers);
  Cluster cluster = cluster_called("h100:1");
  const Estimate on_device = with_offload(step, cluster, "none").estimate;
  const Estimate fast = with_offload(step, cluster, "activations").estimate;
  const double one_way = fast.host_seconds / 2, forward = on_device.step_seconds() / 3;
  cluster.host.bytes_per_second *= one_way / (1.4 * forward);
  EXPECT_GT(with_offload(step, cluster, "activations").estimate.step_seconds(),
            1.1 * on_device.step_seconds());
  EXPECT_LT(with_offload(step, cluster, "activations:0.5").estimate.step_seconds(),
            1.01 * on_device.step_seconds());
}

/// Where the link is slower than compute, copies take as long as there is to be copied, and little else is waited for.
TEST(OffloadedPlans, copies_keep_the_link_busy_where_it_is_slow) {
  const StepOf step = step_of(layers);
  Cluster cluster = cluster_called("h100:1");
  cluster.host.bytes_per_second /= 8;
  const Estimate slow = with_offload(step, cluster, "activations").estimate;
  EXPECT_GT(slow.step_seconds(), slow.host_seconds);
  EXPECT_LT(slow.step_seconds(), 1.25 * slow.host_seconds);
}

/// A search that chooses what goes to the host asks how much that has.
TEST(OffloadedPlans, is_no_more_than_there_is) {
  const StepOf step = step_of("llama:layers=4,hidden=1024,heads=16,ffn=2816,vocab=8192,seq=1024,batch=64");
  PlanRequest request{.model = "test", .cluster = cluster_called("h100:4"), .search = "auto"};
  request.devices = 4;
  request.constraints =
      parse_constraints({"--fix", "dp=4,zero=0,recompute=none,micro_batches=1,offload=none"});
  const std::int64_t whole = judged(step, make_plan(step, request)).estimate.arena_bytes;
  request.options.memory_cap = whole * 7 / 10;
  request.constraints.offload.reset();
  const Evaluation free = judged(step, make_plan(step, request));
  ASSERT_GT(free.estimate.host_bytes, 0);
  for (const double share : {0.9, 0.5}) {
    request.cluster->host.memory_bytes = static_cast<std::int64_t>(
        share * static_cast<double>(free.estimate.host_bytes * request.cluster->devices_per_node) / 0.8);
    const std::optional<std::int64_t> usable = usable_host_bytes(*request.cluster);
    ASSERT_LT(*usable, free.estimate.host_bytes);
    EXPECT_LE(judged(step, make_plan(step, request)).estimate.host_bytes, *usable) << share;
  }
}

TEST(OffloadedPlans, of_a_node_is_shared_by_its_devices) {
  EXPECT_EQ(usable_host_bytes(cluster_called("h100:16")), 200'000'000'000);
  EXPECT_EQ(usable_host_bytes(cluster_called("cpu:4")), std::nullopt);
}

}  // namespace
}  // namespace shardwright
