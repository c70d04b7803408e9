#include "shardwright/frontend/graph_step.h"

#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/planned_strategies.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/verify/verify.h"

namespace shardwright {
namespace {

/// The program of `step`, whose estimate it fills in.
Pipeline compiled(PlannedStep& step, const TrainOptions& options) {
  const Graph& graph = step.network.graph;
  const Plan& plan = step.network.plan;
  Pipeline program = compile_pipeline(graph, plan, {.formats = default_devices().formats});
  const auto cap = options.search_options.memory_cap;
  step.evaluation =
      evaluate(program, plan.cluster, {.memory_cap = cap, .framework = plan.settings.framework});
  if (cap) check_memory(step.evaluation, fmt::format("memory_cap {} allows", bytes_text(*cap)));
  if (const std::string& path = options.save_strategy; !path.empty()) {
    const PlannedStrategies saved = strategies_of(graph, plan, program);
    for (const std::string& line : saved.left_out)
      step.notices.push_back(
          fmt::format("save_strategy {}: the file does not hold the whole plan; {}", path, line));
    save_strategies(saved.file, path);
  }
  return program;
}

Pipeline proven(PlannedStep& step, const TrainOptions& options) {
  Pipeline program = compiled(step, options);
  prove(program);
  return program;
}

}  // namespace

Session start_threads(Pipeline program, SessionOptions options) {
  return Session(std::move(program), options);
}

PlannedStep planned_step(PlannedNetwork network, const TrainOptions& options) {
  PlannedStep out(std::move(network));
  compiled(out, options);
  return out;
}

StepReport PlannedStep::report() const {
  return step_report(network.graph, network.plan, evaluation,
                     batch_size_of(network.graph, network.plan, network.tokens), network.assumed);
}

const std::optional<Bound>& PlannedStep::bound() {
  if (!bound_ && network.bound_of) bound_ = network.bound_of(evaluation);
  return bound_;
}

std::string PlannedStep::page(std::string call, std::string version) {
  const Pipeline pipeline = compile_pipeline(network.graph, network.plan,
                                             {.formats = default_devices().formats, .verifies = false});
  const StepReport told = report();
  return plan_page({.plan = network.plan,
                    .pipeline = pipeline,
                    .evaluation = evaluation,
                    .report = told,
                    .batch = batch_size_of(network.graph, network.plan, network.tokens),
                    .bound = bound(),
                    .call = std::move(call),
                    .version = std::move(version)});
}

GraphStep::GraphStep(PlannedNetwork network, std::vector<std::string> inputs, const TrainOptions& options,
                     const SessionStart& start)
    : inputs_(std::move(inputs)),
      planned_(std::make_shared<PlannedStep>(std::move(network))),
      start_(start),
      session_options_({.seed = options.seed, .timeout = options.timeout}),
      session_(start(proven(*planned_, options), session_options_)) {}

void GraphStep::restart() {
  Session next = start_(session_.pipeline(), session_options_);
  next.take_over(session_);
  session_ = std::move(next);
}

std::vector<Tensor> GraphStep::operator()(const std::vector<Tensor>& batch) {
  if (batch.size() != inputs_.size())
    throw error("the step takes {} tensors but {} were given", inputs_.size(), batch.size());
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < batch.size(); ++i) named[inputs_[i]] = batch[i];
  return session_.step(named);
}

}  // namespace shardwright
