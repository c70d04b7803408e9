#include "shardwright/frontend/graph_step.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

/// The first, which `step` is of, and others over its memory.
std::vector<Prepared> prepared(PlannedStep& step, std::vector<PlannedNetwork> others,
                               const TrainOptions& options) {
  bool is_first = true;
  const PrepareOptions prepares{.device = options.device, .accept = [&](const Pipeline& program) {
                                  if (std::exchange(is_first, false)) look_at(program, step, options);
                                }};
  std::vector<Prepared> out;
  if (others.empty()) {
    out.push_back(prepare(step.network.graph, step.network.plan, prepares));
  } else {
    std::vector<StepToPrepare> steps{{step.network.graph, step.network.plan}};
    for (PlannedNetwork& other : others) steps.push_back({std::move(other.graph), std::move(other.plan)});
    out = prepare_together(steps, prepares);
  }
  std::ranges::move(out.front().notices(), std::back_inserter(step.notices));
  return out;
}

/// Takes it out of `all`.
template <class T>
T first_of(std::vector<T>& all) {
  T out = std::move(all.front());
  all.erase(all.begin());
  return out;
}

std::vector<PlannedNetwork> only(PlannedNetwork network) {
  std::vector<PlannedNetwork> out;
  out.push_back(std::move(network));
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
    : GraphStep(only(std::move(network)), std::move(inputs), options, start) {}

GraphStep::GraphStep(std::vector<PlannedNetwork> sizes, std::vector<std::string> inputs,
                     const TrainOptions& options, const SessionStart& start)
    : inputs_(std::move(inputs)),
      planned_(std::make_shared<PlannedStep>(first_of(sizes))),
      start_(start),
      session_options_({.seed = options.seed, .timeout = options.timeout}),
      prepared_(prepared(*planned_, std::move(sizes), options)),
      session_(start(first_of(prepared_), session_options_)),
      sessions_(session_, std::exchange(prepared_, {}), start, session_options_) {}

void GraphStep::restart() {
  Session next = start_(prepared_again(session_), session_options_);
  next.take_over(session_);
  next.set_next_step(session_.next_step());
  sessions_ = SessionsBySize(next, sessions_.prepared_again(), start_, session_options_);
  session_ = std::move(next);
}

std::vector<Tensor> GraphStep::operator()(const std::vector<Tensor>& batch) {
  if (batch.size() != inputs_.size())
    throw error("the step takes {} tensors but {} were given", inputs_.size(), batch.size());
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < batch.size(); ++i) named[inputs_[i]] = batch[i];
  return run(named);
}

}  // namespace shardwright
