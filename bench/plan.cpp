// What it takes to come from a network to its program: differentiate, plan, and each stage of compilation.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "bench/harness/stages.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

using Seconds = std::vector<std::pair<std::string, double>>;

Seconds once(const std::string& name, int devices, std::size_t& nodes) {
  Model model = build_model(name);
  Seconds out;
  out.emplace_back(
      "differentiate", seconds_per_call(1, [&] {
        add_train_step(model.graph, model.loss, {"momentum", {{"rate", 0.1}, {"momentum", 0.9}}});
      }));
  Plan plan;
  const double planning = seconds_per_call(1, [&] {
    plan = make_plan(
        model.graph,
        {.model = name, .devices = devices, .search = "recursive", .constraints = model.constraints});
  });
  out.emplace_back("plan", planning);
  const Stages stages = compile_in_stages(model.graph, plan);
  out.insert(out.end(), stages.seconds.begin(), stages.seconds.end());
  nodes = stages.program.graph.nodes.size();
  double total = 0;
  for (const auto& stage : out) total += stage.second;
  out.emplace_back("total", total);
  return out;
}

void bench(const BenchOptions& options) {
  pin();
  std::vector<std::string> columns{"network           ", "devices", "nodes"};
  std::size_t nodes = 0;
  for (const auto& [stage, seconds] : once("matmul_chain", 2, nodes)) {
    columns.push_back(stage);
    columns.back().resize(std::max<std::size_t>(columns.back().size(), 7), ' ');
  }
  const Table table(columns);
  table.begin("From a network to its program on one core, by propagation");
  struct Case {
    std::string model;
    int devices;
  };
  std::vector<Case> cases;
  for (const char* model :
       {"ffn", "three_layer", "three_layer_mae", "matmul_chain", "dense_matmul", "llama", "gpt"})
    cases.push_back({model, 8});
  if (!options.is_smoke) cases.insert(cases.end(), {{"ffn:batch=512", 64}, {"ffn:batch=512", 512}});
  for (const auto& [model, devices] : cases) {
    std::vector<Seconds> rounds;
    for (int i = 0; i < options.rounds(7); ++i) rounds.push_back(once(model, devices, nodes));
    std::vector<std::string> cells{model, fmt::to_string(devices), fmt::to_string(nodes)};
    for (std::size_t stage = 0; stage < rounds.front().size(); ++stage) {
      std::vector<double> seconds;
      for (const Seconds& r : rounds) seconds.push_back(r[stage].second);
      cells.push_back(time_text(spread_of(seconds).median));
    }
    table.row(cells);
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
