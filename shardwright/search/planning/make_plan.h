// One way to a plan: what is asked becomes fixed choices, a search chooses under them, the plan tells what was chosen.
#pragma once

#include <string>

#include "shardwright/passes/formats.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan.h"
#include "shardwright/plan/recompute_layers.h"
#include "shardwright/plan/settings.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
class EvaluatedPlans;
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
  Constraints constraints = {};  // what is fixed, by whatever door it came
  /// The degrees of `constraints` say how all is split, and nothing is searched; of those that are not said there is 1.
  bool is_set = false;
  bool has_equal_parts = false;  // degrees divide what they cut: who is to run it (JAX) has equal parts alone
  /// Of a search of whole plans: 1 chooses stages, at most as many as are asked for; 0 has these, and suggests others.
  /// Empty: 1 where nobody says how many.
  std::optional<bool> auto_pipeline = {};
  std::optional<int> most_stages = {};  // of a search of whole plans: planning says so itself
  /// So many there are where nobody says how many, and none others are tried: their loss is another. Empty: as many as
  /// stages, and a search may choose.
  std::optional<int> kept_micro_batches = {};
  /// Of `is_set`: layers of each stage, and which are computed again, by number (plan/set_words.h); empty: as is usual.
  std::vector<int> stage_layers = {};
  LayersAgain layers_again = {};
  std::vector<int> stage_of = {};   // per forward node its stage, where that is known; empty: it is not
  MicroBatches micro_batches = {};  // of a stage: planning says so itself
  bool has_layers = false;          // the network, where anything is computed again: the same
  FormatsOf formats = {};           // of the backend that will run it: memory formats take room, too
  bool verifies = true;             // programs that a search tries, after each pass
  /// Of searches of the same on other numbers of devices; null: there are none.
  automatic::Stock* stock = nullptr;
  EvaluatedPlans* evaluated = nullptr;  // of searches of the same on the same cluster; null: there are none
};

/// What `request` comes to where nothing else is chosen. Throws: Error as settings_of of constraints does.
Settings settings_of(const PlanRequest& request);

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
