#include "shardwright/frontend/graph_step.h"

#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/verify/verify.h"

namespace shardwright {
namespace {

Pipeline proven(const Graph& graph, const Plan& plan, const TrainOptions& options, Estimate& estimate) {
  Pipeline program = compile_pipeline(graph, plan, {.formats = default_devices().formats});
  const auto cap = options.search_options.memory_cap;
  const Evaluation evaluation = evaluate(program, plan.cluster, {.memory_cap = cap});
  if (cap) check_memory(evaluation, "memory_cap " + bytes_text(*cap));
  prove(program);
  estimate = evaluation.estimate;
  return program;
}

}  // namespace

Session start_threads(Pipeline program, SessionOptions options) {
  return Session(std::move(program), options);
}

GraphStep::GraphStep(PlannedNetwork network, std::vector<std::string> inputs, const TrainOptions& options,
                     const SessionStart& start)
    : inputs_(std::move(inputs)),
      graph_(std::move(network.graph)),
      plan_(std::move(network.plan)),
      session_(start(proven(graph_, plan_, options, estimate_), {.seed = options.seed})) {}

std::vector<Tensor> GraphStep::operator()(const std::vector<Tensor>& batch) {
  if (batch.size() != inputs_.size())
    throw error("the step takes {} tensors but {} were given", inputs_.size(), batch.size());
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < batch.size(); ++i) named[inputs_[i]] = batch[i];
  return session_.step(named);
}

std::string GraphStep::explain() const {
  return step_table(graph_, plan_, estimate_, batch_size_of(graph_, plan_));
}

}  // namespace shardwright
