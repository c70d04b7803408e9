#include "shardwright/frontend/train_step.h"

#include "shardwright/frontend/graph_step.h"

namespace shardwright {

struct TrainStep::State {
  GraphStep step;
  std::vector<Tensor> aux = {};
};

namespace {

std::vector<std::string> names_of(const InputTypes& inputs) {
  std::vector<std::string> out;
  for (const auto& [name, type] : inputs) out.push_back(name);
  return out;
}

}  // namespace

TrainStep::TrainStep(const ForwardFunction& forward, const InputTypes& inputs,
                     const OptimizerChoice& optimizer, const TrainOptions& options)
    : state_(new State{
          GraphStep(plan_network(forward, inputs, optimizer, options), names_of(inputs), options)}) {}

TrainStep::TrainStep(std::unique_ptr<State> state) : state_(std::move(state)) {}

TrainStep TrainStep::of_sizes(const ForwardFunction& forward, const std::vector<InputTypes>& sizes,
                              const OptimizerChoice& optimizer, const TrainOptions& options) {
  std::vector<PlannedNetwork> networks = plan_networks(forward, sizes, optimizer, options);
  return TrainStep(
      std::unique_ptr<State>(new State{GraphStep(std::move(networks), names_of(sizes.front()), options)}));
}

TrainStep::~TrainStep() = default;
TrainStep::TrainStep(TrainStep&&) noexcept = default;

double TrainStep::operator()(const std::vector<Tensor>& batch) {
  std::vector<Tensor> outputs = state_->step(batch);
  const double loss = to_doubles(outputs.front()).front();
  outputs.erase(outputs.begin());
  state_->aux = std::move(outputs);
  return loss;
}

std::vector<Tensor> TrainStep::run(const std::map<std::string, Tensor>& batch) {
  return state_->step.run(batch);
}
const std::vector<Tensor>& TrainStep::aux() const { return state_->aux; }
Tensor TrainStep::parameter(std::string_view name) const { return state_->step.session().get(name); }
void TrainStep::set_parameter(std::string_view name, const Tensor& value) {
  state_->step.session().set(name, value);
}
void TrainStep::set_rate(double rate) { shardwright::set_rate(state_->step.session(), rate); }
Session& TrainStep::session() { return state_->step.session(); }
const Plan& TrainStep::plan() const { return state_->step.plan(); }
std::string TrainStep::explain() const { return state_->step.explain(); }

}  // namespace shardwright
