// From a graph and a plan to the program that runs: apply, complete, recompute, lower, optimize.
#pragma once

#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/lower/program.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// The graph with the plan's strategies and layouts, and those of backward and update that follow from them.
PlannedGraph completed(const Graph& graph, const Plan& plan);

struct CompileOptions {
  AfterPass after = {};    // sees the program after each pass
  FormatsOf formats = {};  // of the backend that the program is for; none: everything is row-major
  bool verifies = true;    // the graph after each pass
};

/// Throws: Error if the plan does not fit the graph.
Program compile(const Graph& graph, const Plan& plan, const CompileOptions& options = {});

/// The same for a graph that already carries meshes, strategies and layouts (read from its text form); without
/// a cluster for cpu:N.
Program compile(const PlannedGraph& planned, const Cluster& cluster, const CompileOptions& options = {});
Program compile(const PlannedGraph& planned, const CompileOptions& options = {});

/// The step that the cluster runs: `graph`, a train step or network of one micro-batch, cut and compiled stage by stage.
/// Throws: Error if the plan does not fit the graph.
Pipeline compile_pipeline(const Graph& graph, const Plan& plan, const CompileOptions& options = {});

}  // namespace shardwright
