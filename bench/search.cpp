// How long the recursive search takes: from the model's parameters to the strategy of every node of a training step.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

struct Case {
  std::string model;
  std::string cluster;
  bool fold_layers = true;
  std::string target;
};

struct Seconds {
  double building = 0;
  double planning = 0;
};

Seconds once(const Case& c) {
  const double start = seconds_now();
  Model model = build_model(c.model);
  add_train_step(model.graph, model.loss, {"adamw", {{"rate", 1e-4}, {"weight_decay", 0.1}}});
  const double built = seconds_now();
  PlanRequest request{.model = c.model, .cluster = cluster_called(c.cluster), .search = "recursive"};
  request.devices = request.cluster->devices();
  request.options.fold_layers = c.fold_layers;
  request.verifies = false;  // as in commands
  make_planned(model.graph, request);
  return {built - start, seconds_now() - built};
}

void bench(const BenchOptions& options) {
  pin();
  const Table table({"model                         ", "cluster        ", "layers  ", "graph  ", "plan   ",
                     "both   ", "target   "});
  table.begin("From a model's name to the strategy of every node, one core, median");
  std::vector<Case> cases{{"llama2-7b:batch=8", "a100-80g:8", true, ""},
                          {"llama2-70b:batch=64", "cpu:64", true, "<= 25 ms"},
                          {"llama2-70b:batch=64", "a100-80g:64", true, "<= 25 ms"}};
  if (!options.is_smoke)
    cases.insert(cases.end(), {{"llama2-70b:batch=2048", "h100:16384", true, "<= 100 ms"},
                               {"llama2-70b:batch=64", "a100-80g:64", false, "<= 100 ms"},
                               {"llama2-70b:batch=64,layers=160", "a100-80g:64", false, "<= 2.2 x"},
                               {"gpt:layers=96,batch=64", "a100-80g:64", true, ""},
                               {"resnet50:batch=256,image=224", "a100-80g:8", true, ""}});
  for (const Case& c : cases) {
    std::vector<double> building, planning, both;
    for (int i = 0; i < options.rounds(5); ++i) {
      const Seconds s = once(c);
      building.push_back(s.building);
      planning.push_back(s.planning);
      both.push_back(s.building + s.planning);
    }
    table.row({c.model, c.cluster, c.fold_layers ? "folded" : "each", time_text(spread_of(building).median),
               time_text(spread_of(planning).median), time_text(spread_of(both).median), c.target});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
