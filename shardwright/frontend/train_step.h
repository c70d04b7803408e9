// Training from C++: a forward function, an optimizer and how to parallelise make one compiled step.
//
//   auto forward = [&](Traced data, Traced target) {
//     Traced logits = net(data);
//     return LossAndAux{loss_fn(logits, target), {logits}};
//   };
//   TrainStep step(forward, {{"image", f32}, {"label", i32}}, momentum(1e-3, 0.1), {.devices = 8});
//   double loss = step(batch["image"], batch["label"]);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/frontend/network.h"

namespace shardwright {

class Session;

/// A network that is traced, differentiated, planned, lowered and running on virtual devices.
class TrainStep {
 public:
  /// Shapes: inputs are whole batches. Throws: Error as planning and lowering do.
  TrainStep(const ForwardFunction& forward, const InputTypes& inputs, const OptimizerChoice& optimizer,
            const TrainOptions& options = {});
  /// The same for a function of two values, as in `forward(data, target)`.
  template <class F>
  requires std::is_invocable_r_v<LossAndAux, F, Traced, Traced> TrainStep(const F& forward,
                                                                          const InputTypes& inputs,
                                                                          const OptimizerChoice& optimizer,
                                                                          const TrainOptions& options = {})
      : TrainStep(ForwardFunction([&](const std::vector<Traced>& v) { return forward(v.at(0), v.at(1)); }),
                  inputs, optimizer, options) {}
  /// For batches of several sizes, the largest first, such as sequences of several lengths: each has its own program and plan over the same
  /// weights and states, in one memory. Calls, and `fit`, take batches of any of them.
  static TrainStep of_sizes(const ForwardFunction& forward, const std::vector<InputTypes>& sizes,
                            const OptimizerChoice& optimizer, const TrainOptions& options = {});
  ~TrainStep();
  TrainStep(TrainStep&&) noexcept;

  /// Trains on one batch, tensors in the order of the inputs. Returns the loss before the update.
  double operator()(const std::vector<Tensor>& batch);
  /// The same of tensors by names; returns the loss and the auxiliary values.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& batch);
  double operator()(const Tensor& data, const Tensor& target) {
    return (*this)(std::vector<Tensor>{data, target});
  }

  /// The auxiliary values of the last step.
  const std::vector<Tensor>& aux() const;
  /// The whole of a parameter.
  Tensor parameter(std::string_view name) const;
  void set_parameter(std::string_view name, const Tensor& value);
  /// Of the steps that follow. Throws: Error unless the optimizer `has_set_rate`.
  void set_rate(double rate);
  /// What runs the steps: for checkpoints (runtime/checkpoint).
  Session& session();
  const Plan& plan() const;
  /// The plan as a table, and what it takes.
  std::string explain() const;

 private:
  struct State;
  explicit TrainStep(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
