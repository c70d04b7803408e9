// No plan takes less than the bound, however it is made; below it a search looks no further than it has to.
#include "shardwright/search/planning/least_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

StepOf step_of(const std::string& model, const std::string& optimizer, const Precision& precision = {}) {
  return [=](int micro_batches) {
    Model m = build_model(model, {.precision = precision, .loss = "", .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = optimizer});
    return std::move(m.graph);
  };
}

PlanRequest request_for(const std::string& cluster, const std::string& fix) {
  PlanRequest out{.model = "test", .cluster = cluster_called(cluster), .search = "auto"};
  out.devices = out.cluster->devices();
  if (!fix.empty()) out.constraints = parse_constraints({"--fix", fix});
  return out;
}

std::int64_t arena_of(const StepOf& step, const PlanRequest& request) {
  const Plan plan = make_plan(step, request);
  return evaluate(compile_pipeline(step(plan.settings.pipelining.micro_batches), plan), *request.cluster)
      .estimate.arena_bytes;
}

TEST(LeastMemory, is_undercut_by_no_plan) {
  const std::string llama = "llama:layers=4,hidden=64,heads=4,ffn=128,vocab=256,seq=16,batch=8";
  unsigned k = 0;
  for (const auto& [model, optimizer, precision] :
       {std::tuple(llama, "adamw", Precision()),
        {llama, "adamw", Precision::mixed(DType::bf16)},
        {llama, "sgd", Precision(DType::bf16)},
        {"ffn", "momentum", Precision()},
        {"resnet18:width=8,image=32,batch=8", "adamw", Precision()}}) {
    const StepOf step = step_of(model, optimizer, precision);
    for (const int devices : {1, 2, 4})
      for (const char* fix : {"", "zero=3,recompute=full", "pp=2,zero=1", "tp=2", "micro_batches=4"}) {
        if (!testing::is_asked(k++, 5, 5)) continue;
        SCOPED_TRACE(fmt::format("{} {} on {}: {}", model, optimizer, devices, fix));
        try {
          EXPECT_GE(arena_of(step, request_for(fmt::format("a100-80g:{}", devices), fix)),
                    least_bytes(step(1), devices));
        } catch (const Infeasible&) {  // not every network has such stages
        }
      }
  }
}

/// It is no small part of what the leanest plan of large weights takes.
TEST(LeastMemory, is_close_where_parameters_are_most) {
  const StepOf step = step_of("gpt:layers=4,hidden=512,heads=4,vocab=512,seq=8,batch=4", "adamw");
  const std::int64_t least = least_bytes(step(1), 4);
  EXPECT_LT(arena_of(step, request_for("a100-80g:4", "zero=3,recompute=full")), 3 * least);
}

TEST(LeastMemory, ends_a_search_below_it) {
  const StepOf step = step_of("gpt:layers=4,hidden=64,heads=4,vocab=64,seq=16,batch=4", "adamw");
  const auto programs = [&](std::int64_t cap) {
    PlanRequest request = request_for("a100-80g:4", "");
    automatic::Stock stock;
    request.stock = &stock;
    request.options.memory_cap = cap;
    request.constraints.offload = Offload{};
    make_plan(step, request);
    return std::ranges::count(stock.tried, KnownBy::program, &Tried::by);
  };
  const std::int64_t least = least_bytes(step(1), 4);
  const auto below = programs(least - 1), above = programs(least);
  EXPECT_GE(below, 1);  // one is told
  EXPECT_LE(below, 3);
  EXPECT_GT(above, below);
}

}  // namespace
}  // namespace shardwright
