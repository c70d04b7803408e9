#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

double seconds(const Graph& graph, const Plan& plan) {
  return estimate(compile(graph, plan), plan.cluster).step_seconds();
}

/// A network of one to three products with activations and sums between, of sizes from 8 to 2048.
Graph drawn_network(unsigned seed) {
  std::mt19937 random(seed);
  const auto size = [&] { return 8 << (random() % 9); };
  const int batch = size();
  int width = size();
  std::string text = fmt::format("%x = input f32[{}, {}]\n", batch, width);
  std::string last = "x";
  const int layers = 1 + static_cast<int>(random() % 3);
  for (int l = 0; l < layers; ++l) {
    const bool is_residual = random() % 3 == 0;
    const int next = is_residual ? width : size();
    text += fmt::format("%w{} = param f32[{}, {}] (init=normal)\n", l, width, next);
    text += fmt::format("%m{} = matmul %{}, %w{}\n", l, last, l);
    if (is_residual && l > 0)
      text += fmt::format("%y{} = add %m{}, %{}\n", l, l, last);
    else if (layers < 3)
      text += fmt::format("%y{} = relu %m{}\n", l, l);
    last = text.find(fmt::format("%y{} ", l)) == std::string::npos ? fmt::format("m{}", l)
                                                                   : fmt::format("y{}", l);
    width = next;
  }
  Graph graph = parse_graph(text + fmt::format("%loss = reduce_mean %{}\noutput %loss\n", last));
  add_train_step(graph, graph.find("loss"), {});
  return graph;
}

/// Against the least of all plans. Both price the same way in the end: by lowering the whole step.
TEST(Recursive, comes_near_the_best_of_all_plans_of_small_networks) {
  double sum = 0, worst = 1;
  int count = 0;
  const unsigned all = testing::draws(24);
  for (unsigned seed = 0; seed < all; ++seed) {
    const Graph graph = drawn_network(seed);
    for (const char* cluster : {"cpu:2", "a100-80g:2", "a100-80g:2x1"}) {
      const int devices = 2;
      PlanRequest request{.devices = devices, .cluster = cluster_called(cluster), .search = "exhaustive"};
      Plan best;
      try {
        best = make_plan(graph, request);
      } catch (const Infeasible&) {
        continue;  // too many plans to compare
      }
      request.search = "recursive";
      const double ratio = seconds(graph, make_plan(graph, request)) / seconds(graph, best);
      EXPECT_GE(ratio, 1 - 1e-9) << "seed " << seed << " on " << cluster;
      sum += ratio;
      if (ratio > worst) {
        worst = ratio;
        RecordProperty("worst", fmt::format("{:.3f} seed {} on {}", ratio, seed, cluster));
      }
      ++count;
    }
  }
  ASSERT_GT(count, static_cast<int>(all) * 5 / 3);
  std::printf("mean %.3f, worst %.3f of %d networks\n", sum / count, worst, count);
  EXPECT_LE(sum / count, 1.2);
}

TEST(Recursive, folded_layers_take_the_plan_of_unfolded_ones) {
  Model m = build_model("llama:layers=8,hidden=256,heads=8,vocab=512,seq=64,batch=8");
  add_train_step(m.graph, m.loss, {});
  PlanRequest request{.devices = 8, .cluster = cluster_called("a100-80g:8"), .search = "recursive"};
  const double folded = seconds(m.graph, make_plan(m.graph, request));
  request.options.fold_layers = false;
  const double whole = seconds(m.graph, make_plan(m.graph, request));
  EXPECT_NEAR(folded / whole, 1, 0.02);
}

TEST(Recursive, any_number_of_devices_will_do) {
  Model m = build_model("ffn:batch=420,widths=420-840-420");
  add_train_step(m.graph, m.loss, {});
  for (int devices : {3, 5, 6, 7, 12, 20, 35}) {
    const Plan plan = make_plan(m.graph, {.devices = devices, .search = "recursive"});
    int ranks = 1;
    for (const Axis& axis : plan.stages[0].meshes[0].axes) ranks *= axis.size;
    EXPECT_EQ(ranks, devices);
    EXPECT_LT(seconds(m.graph, plan), seconds(m.graph, make_plan(m.graph, {.devices = 1})) * 1.0001)
        << devices;
  }
}

TEST(Recursive, raises_the_price_of_memory_until_a_plan_fits) {
  Model m = build_model("ffn:batch=2048,widths=2048-2048-2048-16");
  add_train_step(m.graph, m.loss, {});
  PlanRequest request{.devices = 8, .cluster = cluster_called("a100-80g:8"), .search = "recursive"};
  const auto bytes = [&] { return compile(m.graph, make_plan(m.graph, request)).arena_bytes; };
  const std::int64_t freely = bytes();
  request.options.memory_cap = freely * 2 / 3;
  EXPECT_LT(bytes(), freely);
}

/// The bytes of the plan under `cap`, judged by its program.
std::int64_t bytes_under(const Graph& graph, std::optional<std::int64_t> cap) {
  PlanRequest request{.devices = 4, .search = "recursive"};
  request.options.memory_cap = cap;
  request.formats = cpu_formats;
  return compile(graph, make_plan(graph, request), {.formats = cpu_formats}).arena_bytes;  // as it runs
}

/// What fits without a cap stays as it is; else no more memory than without one; and what a lower cap finds, a higher
/// one finds too.
void expect_monotone(const Graph& graph, const std::string& what) {
  const std::int64_t freely = bytes_under(graph, {});
  EXPECT_EQ(bytes_under(graph, freely), freely) << what;
  std::int64_t least_found = freely;
  for (const double share : {0.5, 0.7, 0.8, 0.9, 0.97}) {
    const auto cap = static_cast<std::int64_t>(share * static_cast<double>(freely));
    const std::int64_t bytes = bytes_under(graph, cap);
    EXPECT_LE(bytes, freely) << what << " " << share;
    if (least_found <= cap) {
      EXPECT_LE(bytes, cap) << what << " " << share << ": a plan of " << least_found;
    }
    least_found = std::min(least_found, bytes);
  }
}

TEST(MemoryCap, never_raises_memory_nor_hides_a_plan_that_fits) {
  for (unsigned seed = 0; seed < testing::draws(12); ++seed)
    expect_monotone(drawn_network(seed), fmt::format("seed {}", seed));
  Model m = build_model("llama:layers=2,hidden=64,heads=4,ffn=172,vocab=512,seq=32");
  add_train_step(m.graph, m.loss, {"adam", {{"rate", 0.01}}});
  expect_monotone(m.graph, "llama");
  ModelOptions mixed;
  mixed.precision = Precision::mixed(DType::bf16);
  m = build_model("llama:layers=2,hidden=64,heads=4,ffn=172,vocab=512,seq=32", mixed);
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.01}}});
  expect_monotone(m.graph, "llama in mixed precision");
  m = build_model("resnet18:image=32,width=16,batch=8");  // its weights have memory formats
  add_train_step(m.graph, m.loss, {"adam", {{"rate", 0.01}}});
  expect_monotone(m.graph, "resnet18");
}

/// A plan that holds one micro-batch fits; one that holds all eight has to spare.
TEST(MemoryCap, of_a_stage_counts_its_slots) {
  Model m = build_model("llama:layers=4,hidden=64,heads=4,ffn=172,vocab=64,seq=64,batch=8");
  add_train_step(m.graph, m.loss, {});
  const auto bytes = [&](std::optional<std::int64_t> cap) {
    PlanRequest request{.devices = 4,
                        .search = "recursive",
                        .constraints = constraints_of({.pipelining = {Schedule::gpipe(), 2, 8}})};
    request.options.memory_cap = cap;
    std::int64_t most = 0;
    for (const Program& stage : compile_pipeline(m.graph, make_plan(m.graph, request)).stages)
      most = std::max(most, stage.arena_bytes);
    return most;
  };
  const std::int64_t freely = bytes({});
  EXPECT_EQ(bytes(freely), freely);
  EXPECT_LT(bytes(freely - 1), freely);
}

/// What the threshold leaves as it is, is no reason to decide otherwise.
TEST(MemoryCap, sees_how_far_states_are_sharded) {
  Model m = build_model("llama:layers=12,hidden=256,heads=4,ffn=688,vocab=1024,seq=64,batch=16");
  add_train_step(m.graph, m.loss, {"adam", {{"rate", 0.01}}});
  const auto bytes = [&](const OptimizerParallel& sharded, std::optional<std::int64_t> cap) {
    PlanRequest request{.devices = 8, .cluster = cluster_called("a100-80g:8"), .search = "recursive"};
    request.constraints = merged(request.constraints, constraints_of({.optimizer_parallel = sharded}));
    request.options.memory_cap = cap;
    return compile(m.graph, make_plan(m.graph, request)).arena_bytes;
  };
  const std::int64_t freely = bytes({}, {});
  for (const double share : {0.9, 0.7, 0.5, 0.4}) {
    const auto cap = static_cast<std::int64_t>(share * static_cast<double>(freely));
    const std::int64_t whole = bytes({}, cap);
    EXPECT_EQ(bytes({.level = 3, .threshold = std::int64_t{1} << 40}, cap), whole) << share;
    if (whole <= cap) {
      EXPECT_LE(bytes({.level = 3, .threshold = 0, .group = 2}, cap), cap) << share;
    }
  }
}

/// The devices that `plan` makes parts of dim `dim` of operand `operand` of the operator called `name`.
std::int64_t parts(const Plan& plan, const std::string& name, std::size_t operand, std::size_t dim) {
  for (const PlannedOperator& op : plan.stages[0].operators)
    if (op.name == name) return op.in[operand][dim];
  throw error("no operator {}", name);
}

TEST(Recursive, mem_coeff_moves_from_data_to_tensor_parallelism) {
  Model m = build_model("matmul_chain:widths=1024-1024-1024-1024,batch=1024");
  add_train_step(m.graph, m.loss, {});
  const auto rows = [&](double mem_coeff) {
    PlanRequest request{.devices = 8, .cluster = cluster_called("a100-80g:8"), .search = "recursive"};
    request.options.mem_coeff = mem_coeff;
    return parts(make_plan(m.graph, request), "matmul2", 0, 0);
  };
  EXPECT_EQ(rows(0.001), 8);
  EXPECT_LT(rows(1000), 8);
}

}  // namespace
}  // namespace shardwright
