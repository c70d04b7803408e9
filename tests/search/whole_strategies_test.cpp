// Searches of whole strategies (dynamic, integer) against every combination of strategies of small networks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

Estimate estimated(const Graph& graph, const Plan& plan) {
  return estimate(compile(graph, plan), plan.cluster);
}

/// Two products with what stands between and behind them, of sizes from 16 to 8192: few enough for all combinations.
Graph drawn_network(unsigned seed) {
  std::mt19937 random(seed);
  const auto size = [&] { return 16 << (random() % 10); };
  const int batch = size(), in = size(), out = random() % 3 == 0 ? in : size();
  const char* const between[] = {"relu %m", "gelu %m", "add %m, %x", "mul %m, %m"};
  const unsigned kind = random() % 5;
  std::string text =
      fmt::format("%x = input f32[{}, {}]\n%w = param f32[{}, {}] (init=normal)\n", batch, in, in, out);
  text += "%m = matmul %x, %w\n";
  std::string last = "m";
  if (kind < 4 && (kind != 2 || in == out)) {
    text += fmt::format("%y = {}\n", between[kind]);
    last = "y";
  }
  if (last == "m" || random() % 2 == 0) {
    const int next = size();
    text += fmt::format("%v = param f32[{}, {}] (init=normal)\n%n = matmul %{}, %v\n", out, next, last);
    last = "n";
  }
  Graph graph = parse_graph(text + fmt::format("%loss = reduce_mean %{}\noutput %loss\n", last));
  add_train_step(graph, graph.find("loss"), {});
  return graph;
}

struct Compared {
  int count = 0, equal = 0;
  double worst = 1;
  std::string where;
};

/// `search` beside all combinations, without a cap and where memory is a share of what the best takes.
Compared beside_exhaustive(const char* search, unsigned networks) {
  Compared out;
  for (unsigned seed = 0; seed < networks; ++seed) {
    const Graph graph = drawn_network(seed);
    for (const char* cluster : {"cpu:2", "a100-80g:2", "a100-80g:2x1"}) {
      PlanRequest request{.devices = 2, .cluster = cluster_called(cluster), .search = "exhaustive"};
      const Estimate freely = estimated(graph, make_plan(graph, request));
      for (const double share : {0.0, 0.9, 0.7}) {
        if (share > 0)
          request.options.memory_cap =
              static_cast<std::int64_t>(share * static_cast<double>(freely.arena_bytes));
        request.search = "exhaustive";
        const Estimate best = estimated(graph, make_plan(graph, request));
        request.search = search;
        const Estimate found = estimated(graph, make_plan(graph, request));
        const auto fits = [&](const Estimate& e) {
          return !request.options.memory_cap || e.arena_bytes <= *request.options.memory_cap;
        };
        const std::string what = fmt::format("seed {} on {}, {} of memory", seed, cluster, share);
        EXPECT_EQ(fits(found), fits(best)) << what;
        ++out.count;
        const double ratio = !fits(best) ? 1 : found.step_seconds() / best.step_seconds();
        EXPECT_GE(ratio, 1 - 1e-9) << what;
        out.equal += ratio <= 1 + 1e-9;
        if (ratio > out.worst) out.worst = ratio, out.where = what;
      }
    }
  }
  std::printf("%s: %d of %d equal, worst %.3f %s\n", search, out.equal, out.count, out.worst,
              out.where.c_str());
  return out;
}

class WholeStrategies : public ::testing::TestWithParam<const char*> {};

TEST_P(WholeStrategies, are_the_best_of_all_combinations) {
  const Compared c = beside_exhaustive(GetParam(), testing::is_full() ? 34 : 6);
  EXPECT_LE(c.worst, 1 + 1e-9) << c.where;
}

INSTANTIATE_TEST_SUITE_P(Of, WholeStrategies, ::testing::Values("dynamic", "integer"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace shardwright
