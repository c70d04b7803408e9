// What planning, compiling and pricing take as a network gets deeper: each piece is timed at two depths, in seconds of
// the processor. Four times the layers should take four times as long; what grows with the square takes 16 times.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "bench/harness/measure.h"
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

Seconds seconds_of_pieces(const Graph& graph, const PlanRequest& request) {
  Seconds out;
  double last = cpu_seconds_now();
  const auto lap = [&](const std::string& piece) {
    const double now = cpu_seconds_now();
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
  last = cpu_seconds_now();
  estimate(pipeline, plan.cluster);
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

/// The least of some rounds: what disturbs takes longer.
Seconds least_of(const Graph& graph, const PlanRequest& request, int rounds) {
  Seconds out = seconds_of_pieces(graph, request);
  for (int i = 1; i < rounds; ++i)
    for (const auto& [piece, seconds] : seconds_of_pieces(graph, request))
      out[piece] = std::min(out[piece], seconds);
  return out;
}

std::vector<Case> cases() {
  return {Case{"recursive", llama, 60, {.devices = 8, .search = "recursive"}},
          Case{"propagation", llama, 40, {.devices = 8, .search = "propagation"}},
          Case{"sharded_and_recomputed",
               llama,
               40,
               {.devices = 8,
                .parallel = Parallel::data_parallel,
                .constraints = constraints_of({.optimizer_parallel = {.level = 3, .threshold = 0},
                                               .recompute = {.mode = RecomputeMode::full}})}},
          Case{"in_micro_batches",
               llama,
               40,
               {.devices = 4,
                .parallel = Parallel::data_parallel,
                .constraints = constraints_of({.pipelining = {.micro_batches = 2}})}},
          Case{"in_stages",
               llama,
               40,
               {.devices = 2,
                .search = "recursive",
                .constraints = constraints_of({.pipelining = {.stages = 2, .micro_batches = 2}})}},
          Case{"shared_weight", shared_weight, 200, {.devices = 4, .search = "recursive"}},
          Case{"shared_weight_by_propagation", shared_weight, 200, {.devices = 4, .search = "propagation"}}};
}

void bench(const BenchOptions& options) {
  pin();
  const Table table({"network                      ", "layers      ", "all of it          ", "ratio  ",
                     "steepest piece                                  "});
  table.begin("Planning, compiling and pricing at two depths, one core, processor time, least of the rounds");
  for (const Case& c : cases()) {
    const int depth = options.is_smoke ? 2 : c.depth;
    const Seconds less = least_of(train_step(c, depth), c.request, options.rounds(3));
    const Seconds more = least_of(train_step(c, 4 * depth), c.request, options.rounds(3));
    double before = 0, behind = 0, steepest = 0;
    std::string piece;
    for (const auto& [name, seconds] : more) {
      before += less.at(name);
      behind += seconds;
      // Pieces of under a millisecond say nothing.
      if (seconds < 1e-3 || seconds / less.at(name) <= steepest) continue;
      steepest = seconds / less.at(name);
      piece = name;
    }
    table.row({c.name, fmt::format("{} -> {}", depth, 4 * depth),
               fmt::format("{} -> {}", time_text(before), time_text(behind)),
               fmt::format("{:.1f}", behind / before),
               piece.empty() ? "" : fmt::format("{} {:.1f}", piece, steepest)});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
