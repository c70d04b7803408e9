// Training from C++: a forward function, an optimizer and how to parallelise make one compiled step.
//
//   auto forward = [&](Traced data, Traced target) {
//     Traced logits = net(data);
//     return LossAndAux{loss_fn(logits, target), {logits}};
//   };
//   TrainStep step(forward, {{"image", f32}, {"label", i32}}, momentum(1e-3, 0.1), {.devices = 8});
//   double loss = step(batch["image"], batch["label"]);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/operator.h"
#include "shardwright/frontend/trace.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// What a forward function returns: the scalar that is minimised, and values that are wanted beside it.
struct LossAndAux {
  Traced loss;
  std::vector<Traced> aux = {};
};

/// Optimizers under the seeds' names.
OptimizerChoice sgd(double rate);
OptimizerChoice momentum(double rate, double momentum);
OptimizerChoice adam(double rate);
OptimizerChoice adamw(double rate, double weight_decay = 0.01);

struct TrainOptions {
  int devices = 1;
  Parallel parallel = Parallel::auto_parallel;  // ignored on one device
  std::string search = "propagation";
  std::string dataset_strategy =
      "";  // as --dataset-strategy; empty: data come as their first user wants them
  std::vector<LayoutSplit> dataset_layouts = {};  // instead of it: a layout per input
  int optimizer_parallel = 0;
  std::uint64_t seed = 1;        // of the initial parameters
  DType precision = DType::f32;  // of the parameters
};

/// A network that is traced, differentiated, planned, lowered and running on virtual devices.
class TrainStep {
 public:
  using Inputs = std::vector<std::pair<std::string, Type>>;
  using Forward = std::function<LossAndAux(const std::vector<Traced>&)>;

  /// Shapes: inputs are whole batches. Throws: Error as planning and lowering do.
  TrainStep(const Forward& forward, const Inputs& inputs, const OptimizerChoice& optimizer,
            const TrainOptions& options = {});
  /// The same for a function of two values, as in `forward(data, target)`.
  template <class F>
  requires std::is_invocable_r_v<LossAndAux, F, Traced, Traced> TrainStep(const F& forward,
                                                                          const Inputs& inputs,
                                                                          const OptimizerChoice& optimizer,
                                                                          const TrainOptions& options = {})
      : TrainStep(Forward([&](const std::vector<Traced>& v) { return forward(v.at(0), v.at(1)); }), inputs,
                  optimizer, options) {}
  ~TrainStep();
  TrainStep(TrainStep&&) noexcept;

  /// Trains on one batch, tensors in the order of the inputs. Returns the loss before the update.
  double operator()(const std::vector<Tensor>& batch);
  double operator()(const Tensor& data, const Tensor& target) {
    return (*this)(std::vector<Tensor>{data, target});
  }

  /// The auxiliary values of the last step.
  const std::vector<Tensor>& aux() const;
  /// The whole of a parameter.
  Tensor parameter(std::string_view name) const;
  void set_parameter(std::string_view name, const Tensor& value);
  const Plan& plan() const;
  /// The plan as a table, and what it takes.
  std::string explain() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
