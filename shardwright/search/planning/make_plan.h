// One way to a plan: what is asked becomes fixed choices, a search chooses under them, the plan tells what was chosen.
#pragma once

#include <string>

#include "shardwright/annotations/annotations.h"
#include "shardwright/passes/formats.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
namespace automatic {
class Stock;
}

/// What is asked of planning.
struct PlanRequest {
  std::string model;
  Origin origin = {};
  int devices = 1;
  std::optional<Cluster> cluster = {};  // none: host_cluster(devices)
  Parallel parallel = Parallel::auto_parallel;
  std::string search = {};  // empty: the one that search_for says
  SearchOptions options;
  Annotations annotations;
  Settings settings = {};
  Constraints constraints = {};  // what a search of whole plans may not choose
  /// The degrees of `constraints` say how all is split, in annotations' stead, and nothing is searched; of those that
  /// are not said there is 1.
  bool is_set = false;
  /// Of a search of whole plans: 1 chooses stages, at most as many as are asked for; 0 has these, and suggests others.
  /// Empty: 1 where nobody says how many.
  std::optional<bool> auto_pipeline = {};
  bool keeps_micro_batches = false;  // nor how many there are: the loss of another number of them is another
  std::vector<int> stage_of = {};    // per forward node its stage, where that is known; empty: it is not
  MicroBatches micro_batches = {};   // of a stage: planning says so itself
  FormatsOf formats = {};            // of the backend that will run it: memory formats take room, too
  bool verifies = true;              // programs that a search tries, after each pass
  /// Of searches of the same on other numbers of devices; null: there are none.
  automatic::Stock* stock = nullptr;
};

/// Plans `graph` (a network or a whole train step, of one micro-batch), each stage as a network of its own.
/// Throws: Error when nothing satisfies what is asked, naming what does not fit.
Plan make_plan(const Graph& graph, const PlanRequest& request);

/// Whether the search of `request` chooses stages and micro-batches, too.
bool chooses_structure(const PlanRequest& request);

/// The same of as many micro-batches as the search chooses, or else `request` has.
Plan make_plan(const StepOf& step, const PlanRequest& request);

/// One stage's part of a network, all of it split as `request.constraints` say, on `request.devices`.
PlannedGraph split_by_degrees(Graph part, const Calls& calls, const PlanRequest& request);

/// A plan, and for each stage the graph with the strategies of all its nodes: forward, backward and update.
struct Planned {
  Plan plan;
  std::vector<PlannedGraph> stages;
};
Planned make_planned(const Graph& graph, const PlanRequest& request);

}  // namespace shardwright
