// A graph that code has traced, planned for devices and running on them: tensors in, tensors out, parameters and states
// kept in between. TrainStep is one with a loss and an optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/frontend/network.h"
#include "shardwright/runtime/session.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// Starts the ranks of a program: as threads, or as one of several processes.
using SessionStart = std::function<Session(Pipeline, SessionOptions)>;
Session start_threads(Pipeline program, SessionOptions options);

class GraphStep {
 public:
  /// `inputs`: in the order in which calls give them. Throws: Error as lowering does, if the plan is above the memory cap of
  /// `options`, or cannot be proven.
  GraphStep(PlannedNetwork network, std::vector<std::string> inputs, const TrainOptions& options,
            const SessionStart& start = start_threads);

  /// One step. Shapes: whole batches, in the order of the inputs. Returns the graph's outputs.
  std::vector<Tensor> operator()(const std::vector<Tensor>& batch);

  Session& session() { return session_; }
  const Session& session() const { return session_; }
  const Graph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  const Estimate& estimate() const { return estimate_; }
  /// The plan as a table, and what it takes.
  std::string explain() const;

 private:
  std::vector<std::string> inputs_;
  Graph graph_;
  Plan plan_;
  Estimate estimate_;
  Session session_;
};

}  // namespace shardwright
