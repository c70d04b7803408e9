#include "shardwright/frontend/train_step.h"

#include "shardwright/frontend/report.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

OptimizerChoice sgd(double rate) { return {"sgd", {{"rate", rate}}}; }
OptimizerChoice momentum(double rate, double momentum) {
  return {"momentum", {{"rate", rate}, {"momentum", momentum}}};
}
OptimizerChoice adam(double rate) { return {"adam", {{"rate", rate}}}; }
OptimizerChoice adamw(double rate, double weight_decay) {
  return {"adamw", {{"rate", rate}, {"weight_decay", weight_decay}}};
}

struct TrainStep::State {
  Plan plan;
  std::vector<std::string> inputs;
  Estimate estimate;
  std::unique_ptr<Session> session;
  std::vector<Tensor> aux;
};

TrainStep::TrainStep(const Forward& forward, const Inputs& inputs, const OptimizerChoice& optimizer,
                     const TrainOptions& options)
    : state_(std::make_unique<State>()) {
  Trace trace(options.precision);
  std::vector<Traced> values;
  for (const auto& [name, type] : inputs) {
    values.push_back(trace.input(name, type));
    state_->inputs.push_back(name);
  }
  const LossAndAux result = forward(values);
  Graph& graph = trace.graph();
  graph.outputs = {result.loss.id};
  for (const Traced& t : result.aux) graph.outputs.push_back(t.id);
  add_train_step(graph, result.loss.id, optimizer);

  PlanRequest request{.model = "traced network",
                      .devices = options.devices,
                      .search = options.search,
                      .annotations = trace.annotations(),
                      .optimizer_parallel = options.optimizer_parallel,
                      .price = step_seconds};
  request.parallel = options.devices == 1 ? Parallel::stand_alone : options.parallel;
  if (!options.dataset_strategy.empty()) set_dataset_strategy(request.annotations, options.dataset_strategy);
  if (!options.dataset_layouts.empty())
    request.annotations.dataset = annotation_of("dataset", options.dataset_layouts);
  state_->plan = make_plan(graph, request);
  Program program = compile(graph, state_->plan);
  state_->estimate = estimate(program, cluster_called(state_->plan.cluster));
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
const Plan& TrainStep::plan() const { return state_->plan; }
std::string TrainStep::explain() const { return plan_table(state_->plan, state_->estimate); }

}  // namespace shardwright
