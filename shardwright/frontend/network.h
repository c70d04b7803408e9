// A network written in C++ as graph and plan: a forward function, an optimizer and how to parallelise. TrainStep
// (frontend/train_step.h) runs what is made here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/explain/binding.h"
#include "shardwright/frontend/assumed.h"
#include "shardwright/frontend/operator.h"
#include "shardwright/frontend/trace.h"
#include "shardwright/plan/plan.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

/// What a forward function returns: the scalar that is minimised, and values that are wanted beside it.
struct LossAndAux {
  Traced loss;
  std::vector<Traced> aux = {};
};

using ForwardFunction = std::function<LossAndAux(const std::vector<Traced>&)>;
/// Name and type of each input; types are of whole batches.
using InputTypes = std::vector<std::pair<std::string, Type>>;

/// Optimizers under the seeds' names.
OptimizerChoice sgd(double rate);
OptimizerChoice momentum(double rate, double momentum);
OptimizerChoice adam(double rate);
OptimizerChoice adamw(double rate, double weight_decay = 0.01);

/// What decides about an operator, strongest first: the plan file, the annotation file, `shard` in code, the search.
struct TrainOptions {
  int devices = 1;
  Parallel parallel = Parallel::auto_parallel;  // ignored on one device
  std::string search = "";                      // as --search; empty: auto, where it can
  SearchOptions search_options = {};            // a plan beyond their memory_cap is refused
  std::string plan_file = "";        // as --plan; it decides everything, and must be for this network
  std::string save_strategy = "";    // as --save-strategy
  std::string annotation_file = "";  // as --annotate; what it names replaces what code says of it
  std::string dataset_strategy =
      "";  // as --dataset-strategy; empty: data come as their first user wants them
  std::vector<Split> dataset_layouts = {};  // instead of it: a layout per input
  /// Beside what annotations and code say of parameters and modules. For micro-batches, inputs are whole batches, which
  /// are cut along dim 0; the loss should be a mean over samples (docs/pipeline.md).
  Settings settings = {};
  /// Of parameters or whole modules, as "comm_fusion" in annotations.
  std::map<std::string, int> fusion_numbers = {};
  std::vector<std::int64_t> all_reduce_fusion_config = {};  // the old form of comm_fusion `index`
  std::map<std::string, int> stages = {};  // of modules and operators (`layers.0`), by name; else an even cut
  std::uint64_t seed = 1;                  // of the initial parameters
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // as --timeout
  DeviceKind device = default_devices();                        // that runs it
  Precision precision = {};                                     // as --precision
  std::string reduce_precision = "f32";                         // as --reduce-precision
  std::string loss_scale = "";  // as --loss-scale; empty: the optimizer's own, or the precision's
};

/// What code has traced: a graph with its outputs and updates, and what it says of operators.
struct TracedGraph {
  Graph graph;
  Constraints constraints = {};
};

/// Traced, differentiated and planned.
struct PlannedNetwork {
  Graph graph;
  Plan plan;
  BoundOf bound_of = {};
  Assumed assumed = {};
  std::int64_t tokens = 0;  // of a micro-batch, where its inputs are sequences
  FormatsOf formats = {};   // of the device that it was planned for
};

/// Throws: Error as tracing and planning do.
PlannedNetwork plan_network(const ForwardFunction& forward, const InputTypes& inputs,
                            const OptimizerChoice& optimizer, const TrainOptions& options = {});
/// The same of batches of several sizes, the largest first: weights and states of all lie alike, and the rest is planned for each
/// (search/planning/plan_alike.h).
std::vector<PlannedNetwork> plan_networks(const ForwardFunction& forward,
                                          const std::vector<InputTypes>& sizes,
                                          const OptimizerChoice& optimizer, const TrainOptions& options = {});
/// The same of a graph that is differentiated already, of one micro-batch; `optimizer` makes its updates, if one does.
PlannedNetwork plan_graph(TracedGraph traced, const OptimizerChoice& optimizer, const TrainOptions& options);

}  // namespace shardwright
