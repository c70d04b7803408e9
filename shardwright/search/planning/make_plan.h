// One way to a plan: what is asked becomes constraints, a search chooses under them, the plan tells what was chosen.
#pragma once

#include <string>

#include "shardwright/annotations/annotations.h"
#include "shardwright/passes/formats.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {

/// What is asked of planning.
struct PlanRequest {
  std::string model;
  Origin origin = {};
  int devices = 1;
  std::optional<Cluster> cluster = {};  // none: host_cluster(devices)
  Parallel parallel = Parallel::auto_parallel;
  std::string search = "recursive";
  SearchOptions options;
  Annotations annotations;
  Settings settings = {};
  bool is_of_stage = false;  // what is said of modules may be said of other stages'
  MicroBatches micro_batches =
      {};                  // of the graph, where it is a stage or accumulates; planning says so itself
  FormatsOf formats = {};  // of the backend that will run it: memory formats take room, too
  bool verifies = true;    // programs that a search tries, after each pass
};

/// Plans `graph` (a network or a whole train step, of one micro-batch), each stage on its own.
/// Throws: Error when nothing satisfies what is asked, naming what does not fit.
Plan make_plan(const Graph& graph, const PlanRequest& request);

/// A plan, and the graph with the strategies of all its nodes: forward, backward and update.
struct Planned {
  Plan plan;
  PlannedGraph planned;
};
Planned make_planned(Graph graph, const PlanRequest& request);

}  // namespace shardwright
