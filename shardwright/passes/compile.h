// From a graph and a plan to the program that runs: apply, complete, recompute, lower, optimize.
#pragma once

#include <cstdint>
#include <optional>

#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/lower/program.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// With the strategies and layouts of backward and update, which follow from those of the forward.
PlannedGraph completed(PlannedGraph planned, const Cluster& cluster);

struct CompileOptions {
  AfterPass after = {};    // sees the program after each pass
  FormatsOf formats = {};  // of the backend that the program is for; none: everything is row-major
  bool verifies = true;    // the graph after each pass
  bool is_piece = false;   // what it receives is made on the same devices, and what it sends is used there
  std::optional<std::int64_t> order =
      {};  // blocks in which the sequence stands; not said: as its own operators let it
};

/// Of a graph that carries meshes, strategies and layouts: a stage of a plan, or read from its text form. Without a
/// cluster for as many threads of this host.
Program compile(PlannedGraph planned, const Cluster& cluster, const CompileOptions& options = {});
Program compile(PlannedGraph planned, const CompileOptions& options = {});

/// The step that the cluster runs: `graph`, a train step or network of one micro-batch, cut and compiled stage by stage.
/// Throws: Error if the plan does not fit the graph.
Pipeline compile_pipeline(const Graph& graph, const Plan& plan, const CompileOptions& options = {});
/// The program of a plan of one stage.
Program compile(const Graph& graph, const Plan& plan, const CompileOptions& options = {});

}  // namespace shardwright
