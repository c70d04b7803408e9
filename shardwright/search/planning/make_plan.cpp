#include "shardwright/search/planning/make_plan.h"

#include <algorithm>
#include <chrono>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/complete.h"
#include "shardwright/search/planning/contradictions.h"
#include "shardwright/search/planning/decisions.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

Constraints stand_alone(const Graph& graph) {
  Constraints out{.meshes = {Mesh{}}};
  out.strategies.resize(graph.nodes.size());
  out.reasons.resize(graph.nodes.size());
  return out;
}

/// Throws: Error unless groups are of equal size.
void check(const OptimizerParallel& options, int devices) {
  if (options.level < 0 || options.level > 3)
    throw error("optimizer parallel level {}: there are 0, 1, 2 and 3", options.level);
  if (options.threshold < 0)
    throw error("optimizer parallel threshold {}: should be bytes from 0 on", options.threshold);
  if (options.group < 0 || (options.group > 0 && devices % options.group))
    throw error("optimizer parallel group {}: should divide the {} devices; 0 is all replicas", options.group,
                devices);
}

/// The plan before anything is chosen.
Plan draft(const Graph& graph, const PlanRequest& request) {
  if (request.parallel == Parallel::stand_alone && request.devices > 1)
    throw error(
        "parallel mode stand_alone is for 1 device but there are {}; use data_parallel or auto_parallel",
        request.devices);
  Plan plan{.model = request.model,
            .origin = request.origin,
            .fingerprint = fingerprint_of(graph),
            .devices = request.devices};
  check(request.settings.pipelining);
  plan.cluster = request.cluster ? *request.cluster : host_cluster(request.devices);
  if (const int n = plan.cluster.devices(); n != request.devices)
    throw error("cluster {} has {} devices but --devices says {}", plan.cluster.name, n, request.devices);
  plan.parallel = name_of(request.parallel);
  plan.settings = request.settings;
  Settings& s = plan.settings;
  check(s.optimizer_parallel, request.devices);
  s.comm_fusion = with_parameters(std::move(s.comm_fusion), graph, request.annotations.comm_fusion);
  s.recompute = with_modules(std::move(s.recompute), request.annotations.recompute);
  if (!request.is_of_stage) check(s.recompute, graph);
  if (request.parallel == Parallel::auto_parallel) plan.search = find_search(request.search).name;
  return plan;
}

/// Lets the search choose, and tells in `plan` how that went.
Decisions search(const Graph& graph, const Calls& calls, const PlanRequest& request, Plan& plan) {
  const Cluster& cluster = plan.cluster;
  check_names(graph, request.annotations);  // also where the mode has no use for them
  Constraints constraints =
      request.parallel == Parallel::stand_alone
          ? stand_alone(graph)
          : constraints_of(graph, request.annotations, request.devices, request.parallel);
  Redistributor redistributor = redistributor_for(constraints.meshes, cluster);
  const Judge judge(graph, calls, request, cluster, constraints, plan);
  const Problem problem{.graph = &graph,
                        .calls = &calls,
                        .cluster = &cluster,
                        .constraints = constraints,
                        .redistributor = &redistributor,
                        .parameters_stay_whole = request.parallel == Parallel::data_parallel,
                        .judge = &judge};
  check_no_contradiction(problem, request.options);
  SearchResult found =
      find_search(plan.search.empty() ? "propagation" : plan.search).run(problem, request.options);
  if (found.status == SearchStatus::infeasible) throw Infeasible(fmt::format("no plan: {}", found.violation));
  plan.status = name_of(found.status);
  plan.compared = std::move(found.compared);
  plan.log = std::move(found.log);
  plan.lower_bound_seconds = found.lower_bound_seconds;
  return decisions_of(std::move(constraints), std::move(found), graph, calls,
                      request.settings.optimizer_parallel);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Plan decide_for(const Graph& graph, const PlanRequest& request, Plan plan) {
  const Calls calls(graph);
  const Decisions decided = search(graph, calls, request, plan);
  return told(std::move(plan), graph, calls, decided);
}

Plan decide_accumulated(const Graph& graph, PlanRequest request, Plan plan) {
  plan.fingerprint = fingerprint_of(graph);
  request.micro_batches = micro_batches_of(plan.settings.pipelining, 0);
  return decide_for(graph, request, std::move(plan));
}

}  // namespace

Plan make_plan(const Graph& graph, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = draft(graph, request);
  const int asked = request.settings.pipelining.stages;
  const Schedule schedule = request.settings.pipelining.schedule;
  const int stages =
      stages_asked(asked > 1 ? std::optional(asked) : std::nullopt, schedule.chunks, request.annotations);
  if (stages == 1 && schedule.kind == Schedule::interleaved)
    throw error("schedule {} is for several stages but there is one", name_of(schedule));
  if (stages > 1)
    plan = with_stages(std::move(plan), graph, request, stages);
  else if (plan.settings.pipelining.micro_batches > 1)
    plan = decide_accumulated(accumulated(graph, plan.settings.pipelining.micro_batches).graph, request,
                              std::move(plan));
  else
    plan = decide_for(graph, request, std::move(plan));
  plan.search_seconds = seconds_since(start);
  return plan;
}

Planned make_planned(Graph graph, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = draft(graph, request);
  const Calls calls(graph);
  const Decisions decided = search(graph, calls, request, plan);
  plan = told(std::move(plan), graph, calls, decided);
  PlannedGraph planned = written(std::move(graph), decided, plan, request.micro_batches);
  Redistributor redistributor = redistributor_for(planned.graph.meshes, plan.cluster);
  complete(planned.graph, redistributor, planned.update_layouts, calls);
  plan.search_seconds = seconds_since(start);
  return {std::move(plan), std::move(planned)};
}

}  // namespace shardwright
