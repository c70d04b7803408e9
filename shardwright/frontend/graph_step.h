// A graph that code has traced, planned for devices and running on them: tensors in, tensors out, parameters and states
// kept in between. TrainStep is one with a loss and an optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/network.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/sessions_by_size.h"
#include "shardwright/runtime/start.h"
#include "shardwright/simulate/evaluate.h"
#include "shardwright/training/told.h"

namespace shardwright {

/// A planned step and what it is expected to take on its cluster: no memory is taken for it.
struct PlannedStep {
  explicit PlannedStep(PlannedNetwork planned) : network(std::move(planned)) {}

  PlannedNetwork network;
  Evaluation evaluation = {};
  std::vector<std::string> notices = {};  // of what was written beside it

  /// The plan, and what it takes.
  StepReport report() const;
  std::string explain() const { return to_text(report()); }
  /// As a page (plan_page.h), with the call that made it. Cost: of compiling it and simulating a step, and of bound().
  std::string page(std::string call, std::string version);

  /// What binds the plan, where it is known how it was found. Cost: as bound_of, at the first call.
  const std::optional<Bound>& bound();

 private:
  std::optional<Bound> bound_ = {};
};
/// Throws: Error as lowering does, or if the plan is above the memory cap of `options`.
PlannedStep planned_step(PlannedNetwork network, const TrainOptions& options);

class GraphStep {
 public:
  /// `inputs`: in the order in which calls give them. Throws: Error as lowering does, if the plan is above the memory cap of
  /// `options`, or cannot be proven.
  GraphStep(PlannedNetwork network, std::vector<std::string> inputs, const TrainOptions& options,
            const SessionStart& start = start_threads);
  /// Of a network for batches of several sizes, the largest first (plan_networks), over the same memory; all else is told of that one.
  /// Throws: Error also if they cannot share it.
  GraphStep(std::vector<PlannedNetwork> sizes, std::vector<std::string> inputs, const TrainOptions& options,
            const SessionStart& start = start_threads);

  /// One step. Shapes: whole batches, in the order of the inputs. Returns the graph's outputs.
  std::vector<Tensor> operator()(const std::vector<Tensor>& batch);
  /// The same of tensors by names.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& batch) {
    return sessions_.step(session_, batch);
  }
  /// Which of the sizes a batch has. Throws: Error if it is none of them.
  std::size_t size_of(const std::map<std::string, Tensor>& batch) const { return sessions_.of(batch); }
  std::size_t sizes() const { return sessions_.size(); }

  /// After a step that has failed: new ranks go on with what the old ones have kept.
  /// Throws: Error if that is lost, as the session does.
  void restart();

  Session& session() { return session_; }
  const Session& session() const { return session_; }
  const std::shared_ptr<PlannedStep>& planned() const { return planned_; }
  const Graph& graph() const { return planned_->network.graph; }
  const Plan& plan() const { return planned_->network.plan; }
  std::string explain() const { return planned_->explain(); }

 private:
  std::vector<std::string> inputs_;
  std::shared_ptr<PlannedStep> planned_;  // which who asks may keep
  SessionStart start_;
  SessionOptions session_options_;
  std::vector<Prepared> prepared_;  // of the sizes, until they run
  Session session_;
  SessionsBySize sessions_;
};

}  // namespace shardwright
