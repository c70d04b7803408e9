#include "shardwright/frontend/train_step.h"

#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/session.h"
#include "shardwright/verify/verify.h"

namespace shardwright {

struct TrainStep::State {
  Plan plan;
  std::vector<std::string> inputs;
  Estimate estimate;
  Graph graph;
  std::unique_ptr<Session> session;
  std::vector<Tensor> aux;
};

TrainStep::TrainStep(const ForwardFunction& forward, const InputTypes& inputs,
                     const OptimizerChoice& optimizer, const TrainOptions& options)
    : state_(std::make_unique<State>()) {
  for (const auto& [name, type] : inputs) state_->inputs.push_back(name);
  PlannedNetwork network = plan_network(forward, inputs, optimizer, options);
  state_->plan = std::move(network.plan);
  Pipeline program = compile_pipeline(network.graph, state_->plan, {.formats = default_devices().formats});
  const auto cap = options.search_options.memory_cap;
  const Evaluation evaluation = evaluate(program, state_->plan.cluster, {.memory_cap = cap});
  if (cap) check_memory(evaluation, "memory_cap " + bytes_text(*cap));
  prove(program);
  state_->estimate = evaluation.estimate;
  state_->graph = std::move(network.graph);
  state_->session = std::make_unique<Session>(std::move(program), SessionOptions{.seed = options.seed});
}

TrainStep::~TrainStep() = default;
TrainStep::TrainStep(TrainStep&&) noexcept = default;

double TrainStep::operator()(const std::vector<Tensor>& batch) {
  if (batch.size() != state_->inputs.size())
    throw error("the step takes {} tensors but {} were given", state_->inputs.size(), batch.size());
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < batch.size(); ++i) named[state_->inputs[i]] = batch[i];
  std::vector<Tensor> outputs = state_->session->step(named);
  const double loss = to_doubles(outputs.front()).front();
  outputs.erase(outputs.begin());
  state_->aux = std::move(outputs);
  return loss;
}

const std::vector<Tensor>& TrainStep::aux() const { return state_->aux; }
Tensor TrainStep::parameter(std::string_view name) const { return state_->session->get(name); }
void TrainStep::set_parameter(std::string_view name, const Tensor& value) {
  state_->session->set(name, value);
}
void TrainStep::set_rate(double rate) {
  state_->session->set(rate_state, make_tensor({DType::f32, {}}, std::span(&rate, 1)));
}
Session& TrainStep::session() { return *state_->session; }
const Plan& TrainStep::plan() const { return state_->plan; }
std::string TrainStep::explain() const {
  return step_table(state_->graph, state_->plan, state_->estimate,
                    batch_size_of(state_->graph, state_->plan));
}

}  // namespace shardwright
