#include "shardwright/frontend/graph_step.h"

#include <algorithm>
#include <iterator>

#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/planned_strategies.h"
#include "shardwright/ops/row_updates.h"
#include "shardwright/passes/compile.h"

namespace shardwright {
namespace {

/// Fills in what a step of `program` takes. Throws: Error if that is above the memory cap.
void look_at(const Pipeline& program, PlannedStep& step, const TrainOptions& options) {
  const Plan& plan = step.network.plan;
  const auto cap = options.search_options.memory_cap;
  step.evaluation =
      evaluate(program, plan.cluster, {.memory_cap = cap, .framework = plan.settings.framework});
  std::ranges::move(tables_updated_whole(step.network.graph), std::back_inserter(step.notices));
  if (cap) check_memory(step.evaluation, fmt::format("memory_cap {} allows", bytes_text(*cap)));
  if (const std::string& path = options.save_strategy; !path.empty()) {
    const PlannedStrategies saved = strategies_of(step.network.graph, plan, program);
    for (const std::string& line : saved.left_out)
      step.notices.push_back(
          fmt::format("save_strategy {}: the file does not hold the whole plan; {}", path, line));
    save_strategies(saved.file, path);
  }
}

Prepared prepared(PlannedStep& step, const TrainOptions& options) {
  Prepared out = prepare(step.network.graph, step.network.plan,
                         {.device = options.device,
                          .accept = [&](const Pipeline& program) { look_at(program, step, options); }});
  std::ranges::move(out.notices(), std::back_inserter(step.notices));
  return out;
}

}  // namespace

PlannedStep planned_step(PlannedNetwork network, const TrainOptions& options) {
  PlannedStep out(std::move(network));
  look_at(compile_pipeline(out.network.graph, out.network.plan, {.formats = options.device.formats}), out,
          options);
  return out;
}

StepReport PlannedStep::report() const {
  return step_report(network.graph, network.plan, evaluation,
                     batch_size_of(network.graph, network.plan, network.tokens), network.formats,
                     network.assumed);
}

const std::optional<Bound>& PlannedStep::bound() {
  if (!bound_ && network.bound_of) bound_ = network.bound_of(evaluation);
  return bound_;
}

std::string PlannedStep::page(std::string call, std::string version) {
  const Pipeline pipeline =
      compile_pipeline(network.graph, network.plan, {.formats = network.formats, .verifies = false});
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
      session_(start(prepared(*planned_, options), session_options_)) {}

void GraphStep::restart() {
  Session next = start_(prepared_again(session_), session_options_);
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
