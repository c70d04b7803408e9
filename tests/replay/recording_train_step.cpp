// A TrainStep that does not train: its explanation is the replay text of plan and program. It stands before the
// library's in the link, so that examples show what they would have run.

#include "shardwright/frontend/train_step.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/simulate/estimate.h"
#include "tests/replay/replay_text.h"

namespace shardwright {

struct TrainStep::State {
  Plan plan;
  std::string text;
  std::vector<Tensor> aux;
};

TrainStep::TrainStep(const ForwardFunction& forward, const InputTypes& inputs,
                     const OptimizerChoice& optimizer, const TrainOptions& options)
    : state_(std::make_unique<State>()) {
  PlannedNetwork network = plan_network(forward, inputs, optimizer, options);
  const Program program = compile(network.graph, network.plan);
  state_->text = replay_text(network.plan, to_text(program.graph, {.layouts = false, .gradients = false}),
                             estimate(program, network.plan.cluster).step_seconds());
  state_->plan = std::move(network.plan);
}

TrainStep::~TrainStep() = default;
TrainStep::TrainStep(TrainStep&&) noexcept = default;
double TrainStep::operator()(const std::vector<Tensor>&) { return 0; }
std::vector<Tensor> TrainStep::run(const std::map<std::string, Tensor>&) {
  throw error("nothing is trained");
}
const std::vector<Tensor>& TrainStep::aux() const { return state_->aux; }
Tensor TrainStep::parameter(std::string_view name) const { throw error("{}: nothing is trained", name); }
void TrainStep::set_parameter(std::string_view name, const Tensor&) {
  throw error("{}: nothing is trained", name);
}
void TrainStep::set_rate(double) { throw error("nothing is trained"); }
Session& TrainStep::session() { throw error("nothing is trained"); }
const Plan& TrainStep::plan() const { return state_->plan; }
std::string TrainStep::explain() const { return state_->text; }

}  // namespace shardwright
