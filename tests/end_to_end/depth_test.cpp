// What planning, compiling and pricing take grows with the depth of a network, not with its square: each piece is timed
// at two depths, in seconds of the processor, so that what else the machine does hardly counts.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <string>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

using Seconds = std::map<std::string, double>;  // by piece

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Seconds seconds_of_pieces(const Graph& graph, const PlanRequest& request) {
  Seconds out;
  double last = processor_seconds();
  const auto lap = [&](const std::string& piece) {
    const double now = processor_seconds();
    out[piece] = now - last;
    last = now;
  };
  const Plan plan = make_plan(graph, request);
  lap("make_plan");
  const auto after = [&](const Pass& pass, const Program&, double) {
    lap(pass.name == "drop_identities" ? "apply, complete, lower and drop_identities" : pass.name);
  };
  const Pipeline pipeline =
      compile_pipeline(graph, plan, {.after = after, .formats = cpu_formats, .verifies = false});
  last = processor_seconds();
  EXPECT_GT(estimate(pipeline, cluster_called(plan.cluster)).step_seconds(), 0);
  lap("estimate");
  return out;
}

struct Case {
  std::string name;
  std::function<Graph(int depth)> network;  // with its loss as the only output
  int depth;
  PlanRequest request;
};

Graph llama(int layers) {
  return build_model(fmt::format("llama:layers={},hidden=64,heads=4,ffn=96,vocab=64,seq=16,batch=8", layers))
      .graph;
}

/// One weight that all layers read.
Graph shared_weight(int layers) {
  std::string text = "%x = input f32[8, 16]\n%w = param f32[16, 16] (init=ones)\n%n0 = mul %x, %x\n";
  for (int i = 0; i < layers; ++i)
    text += fmt::format("%m{0} = matmul %n{0}, %w\n%n{1} = relu %m{0}\n", i, i + 1);
  return parse_graph(text + fmt::format("%l = reduce_sum %n{}\noutput %l\n", layers));
}

Graph train_step(const Case& c, int depth) {
  Graph graph = c.network(depth);
  add_train_step(graph, graph.outputs.front(), {.name = "adam", .attributes = {{"rate", 0.5}}});
  return graph;
}

class Depth : public ::testing::TestWithParam<Case> {};

/// The square would be 16 times as much; 20 ms are for what a clock and a cold cache do.
TEST_P(Depth, four_times_the_layers_take_at_most_eight_times_as_long) {
  const Case& c = GetParam();
  const Graph shallow = train_step(c, c.depth), deep = train_step(c, 4 * c.depth);
  Seconds less = seconds_of_pieces(shallow, c.request), more = seconds_of_pieces(deep, c.request);
  // Again, and the best of the two: what disturbs takes longer.
  for (const auto& [piece, seconds] : seconds_of_pieces(shallow, c.request))
    less[piece] = std::min(less[piece], seconds);
  for (const auto& [piece, seconds] : seconds_of_pieces(deep, c.request))
    more[piece] = std::min(more[piece], seconds);
  for (const auto& [piece, seconds] : more)
    EXPECT_LE(seconds, 8 * less.at(piece) + 0.02) << piece << ": " << less.at(piece) << " s for " << c.depth;
}

INSTANTIATE_TEST_SUITE_P(
    all, Depth,
    ::testing::Values(
        Case{"recursive", llama, 60, {.devices = 8}},
        Case{"propagation", llama, 40, {.devices = 8, .search = "propagation"}},
        Case{"sharded_and_recomputed",
             llama,
             40,
             {.devices = 8,
              .parallel = Parallel::data_parallel,
              .settings = {.optimizer_parallel = {.level = 3, .threshold = 0},
                           .recompute = {.mode = RecomputeMode::full}}}},
        Case{"in_micro_batches",
             llama,
             40,
             {.devices = 4,
              .parallel = Parallel::data_parallel,
              .settings = {.pipelining = {.micro_batches = 2}}}},
        Case{"in_stages",
             llama,
             40,
             {.devices = 2, .settings = {.pipelining = {.stages = 2, .micro_batches = 2}}}},
        Case{"shared_weight", shared_weight, 200, {.devices = 4}},
        Case{"shared_weight_by_propagation", shared_weight, 200, {.devices = 4, .search = "propagation"}}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace shardwright
