// What it takes to write down the graph of a whole training step: forward, backward and update, of shapes only.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"

namespace shardwright {
namespace {

void bench(const BenchOptions& options) {
  pin();
  const Table table({"model       ", "nodes", "forward", "whole step", "of CPU time", "a node ", "target  "});
  table.begin("The graph of a training step by AdamW, from the model's name");
  struct Case {
    std::string model;
    std::string target;
  };
  for (const auto& [model, target] :
       {Case{"llama2-7b", ""}, Case{"llama2-70b", "<= 10 ms"}, Case{"gpt:layers=96", ""}}) {
    std::vector<double> forward, whole, core;
    std::size_t nodes = 0;
    for (int i = 0; i < options.rounds(51); ++i) {
      const double start = seconds_now(), core_start = cpu_seconds_now();
      Model m = build_model(model);
      forward.push_back(seconds_now() - start);
      add_train_step(m.graph, m.loss, {"adamw", {{"rate", 1e-4}, {"weight_decay", 0.1}}});
      whole.push_back(seconds_now() - start);
      core.push_back(cpu_seconds_now() - core_start);
      nodes = m.graph.nodes.size();
    }
    const double seconds = spread_of(core).median;
    table.row({model, fmt::to_string(nodes), time_text(spread_of(forward).median),
               time_text(spread_of(whole).median), time_text(seconds),
               time_text(seconds / static_cast<double>(nodes)), target});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
