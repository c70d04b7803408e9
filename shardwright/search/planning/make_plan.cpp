#include "shardwright/search/planning/make_plan.h"

#include <algorithm>
#include <chrono>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/groups.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/search/planning/contradictions.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<std::string> names_of(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> out;
  for (int a : axes) out.push_back(mesh.axes[at(a)].name);
  return out;
}

std::string text_of(const Layout& layout, const std::vector<Mesh>& meshes) {
  return to_text(layout, meshes[at(layout.mesh)]) + (layout.mesh > 0 ? fmt::format("@{}", layout.mesh) : "");
}

/// What is told of one call under one choice, but for names.
PlannedOperator told_of(const Node& node, const Rule& rule, const Choice& choice,
                        const std::vector<Mesh>& meshes) {
  const Strategy& s = choice.strategy;
  const Mesh& mesh = meshes[at(s.mesh)];
  PlannedOperator out{.kind = node.op->name, .mesh = s.mesh, .reason = choice.reason};
  for (std::size_t l = 0; l < rule.loops.size(); ++l)
    if (!s.loops[l].empty()) out.strategy.emplace_back(rule.loops[l].name, names_of(s.loops[l], mesh));
  for (std::size_t g = 0; g < rule.linear.size(); ++g)
    if (!s.linear[g].empty()) out.strategy.emplace_back(fmt::format("+{}", g), names_of(s.linear[g], mesh));
  for (const RuleTensor& tensor : rule.operands) out.in.push_back(integers_of(tensor, s, mesh));
  return out;
}

std::vector<PlannedOperator> planned_operators(const Graph& graph, const Calls& calls,
                                               const Constraints& constraints,
                                               const std::vector<Choice>& choices) {
  struct Told {
    const Choice* choice;
    PlannedOperator what;
  };
  std::vector<std::vector<Told>> known(at(calls.size()));  // layers repeat themselves
  std::vector<PlannedOperator> out;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[at(n)];
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const Choice& choice = choices[at(n)];
    auto& told = known[at(calls.of({n}))];
    auto it = std::find_if(told.begin(), told.end(), [&](const Told& t) {
      return t.choice->strategy == choice.strategy && t.choice->reason == choice.reason;
    });
    if (it == told.end())
      it = told.insert(it, {&choice, told_of(node, calls.rule(NodeId{n}), choice, constraints.meshes)});
    PlannedOperator& planned = out.emplace_back(it->what);
    planned.name = graph.name_of({n});
    planned.is_fixed = constraints.strategies[at(n)].has_value();
    const auto asked = constraints.layouts.find(node.results.front());
    if (asked != constraints.layouts.end()) planned.out = text_of(asked->second, constraints.meshes);
  }
  return out;
}

/// Leaves lie as their first forward user wants them, unless data have a layout of their own. States that no forward
/// node reads are the optimizer's, and lie as their parameter does.
std::map<ValueId, Layout> leaf_layouts(const Graph& graph, const Calls& calls, const Constraints& constraints,
                                       const std::vector<Choice>& choices,
                                       const OptimizerParallel& optimizer_parallel) {
  const std::vector<Reader> readers = first_forward_readers(graph);
  std::map<ValueId, Layout> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::compute || node.op->kind == OpKind::step) continue;
    const ValueId v = node.results.front();
    const Reader& reader = readers[at(v.index)];
    if (node.op->kind == OpKind::state && !reader.node.is_valid()) continue;
    // What the backward receives or adds up follows from what it does (complete.h).
    if ((node.op->kind == OpKind::receive && node.phase != Phase::forward) ||
        node.op->kind == OpKind::accumulator)
      continue;
    Layout layout = replicated(graph.value(v).type.shape.size());
    const auto asked = constraints.layouts.find(v);
    if (asked != constraints.layouts.end()) {
      layout = asked->second;
    } else if (reader.node.is_valid()) {
      const NodeLayouts layouts =
          layouts_of(calls.rule(reader.node), choices[at(reader.node.index)].strategy);
      layout = stored(layouts.operands[reader.operand]);
    }
    if (node.op->kind == OpKind::parameter)
      layout = weight_layout(layout, constraints.meshes, graph.value(v).type, optimizer_parallel);
    out.emplace_hint(out.end(), v, std::move(layout));
  }
  return out;
}

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
  check(request.pipelining);
  plan.cluster = request.cluster.empty() ? fmt::format("cpu:{}", request.devices) : request.cluster;
  plan.parallel = name_of(request.parallel);
  plan.optimizer_parallel = request.optimizer_parallel;
  plan.pipelining = request.pipelining;
  check(request.optimizer_parallel, request.devices);
  plan.comm_fusion = with_parameters(request.comm_fusion, graph, request.annotations.comm_fusion);
  plan.recompute = with_modules(request.recompute, request.annotations.recompute);
  if (!request.is_of_stage) check(plan.recompute, graph);
  if (request.parallel == Parallel::auto_parallel) plan.search = find_search(request.search).name;
  return plan;
}

/// Everything that was decided, in terms of the graph.
struct Decisions {
  Constraints constraints;  // with the meshes of the choices
  std::vector<Choice> choices;
};

/// `decided` on meshes whose axes are cut where groups of optimizer parallelism need it.
Decisions with_groups(Decisions decided, const Graph& graph, const Calls& calls,
                      const OptimizerParallel& options) {
  if (options.level == 0 || options.group == 0) return decided;
  std::vector<Layout> weights;
  for (const auto& [v, layout] : leaf_layouts(graph, calls, decided.constraints, decided.choices, {}))
    if (graph.node(graph.value(v).producer).op->kind == OpKind::parameter &&
        graph.value(v).type.bytes() >= options.threshold)
      weights.push_back(layout);
  CutMeshes cut = cut_for_groups(decided.constraints.meshes, weights, options.group);
  for (Choice& choice : decided.choices) choice.strategy = translate(choice.strategy, cut);
  for (auto& [v, layout] : decided.constraints.layouts)
    layout = translate(layout, cut.axes_of[at(layout.mesh)], layout.mesh);
  for (auto& strategy : decided.constraints.strategies)
    if (strategy) strategy = translate(*strategy, cut);
  decided.constraints.meshes = std::move(cut.meshes);
  return decided;
}

/// `plan` with what was decided.
Plan with_decisions(Plan plan, const Graph& graph, const Calls& calls, const Decisions& decided,
                    const std::map<ValueId, Layout>& leaves) {
  plan.meshes = decided.constraints.meshes;
  plan.operators = planned_operators(graph, calls, decided.constraints, decided.choices);
  for (const auto& [v, layout] : leaves)
    plan.layouts[graph.value(v).name] = text_of(layout, decided.constraints.meshes);
  return plan;
}

/// The same as applying the plan in names.
PlannedGraph written(Graph graph, const Decisions& decided, const std::map<ValueId, Layout>& leaves,
                     const Plan& plan, const MicroBatches& micro_batches) {
  PlannedGraph out{.graph = std::move(graph),
                   .update_layouts = {},
                   .comm_fusion = plan.comm_fusion,
                   .recompute = plan.recompute,
                   .micro_batches = micro_batches};
  out.graph.meshes = decided.constraints.meshes;
  for (std::size_t n = 0; n < out.graph.nodes.size(); ++n) {
    Node& node = out.graph.nodes[n];
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    node.strategy = decided.choices[n].strategy;
    const ValueId v = node.results.front();
    const auto asked = decided.constraints.layouts.find(v);
    if (asked != decided.constraints.layouts.end()) out.graph.value(v).layout = asked->second;
  }
  for (const auto& [v, layout] : leaves) out.graph.value(v).layout = layout;
  shard_states(out, out.graph.meshes, plan.optimizer_parallel);
  return out;
}

Cluster cluster_for(const Plan& plan, int devices) {
  Cluster cluster = cluster_called(plan.cluster);
  if (cluster.devices() != devices)
    throw error("cluster {} has {} devices but --devices says {}", plan.cluster, cluster.devices(), devices);
  return cluster;
}

Redistributor redistributor_for(const std::vector<Mesh>& meshes, const Cluster& cluster) {
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : meshes) costs.push_back(mesh_cost(cluster, mesh));
  return Redistributor(meshes, costs, {.even_only = true});
}

/// What a search has found under `constraints`.
Decisions taken(Constraints constraints, SearchResult found) {
  if (!found.meshes.empty()) {
    constraints.meshes = std::move(found.meshes);
    constraints.layouts = std::move(found.layouts);
  }
  return {std::move(constraints), std::move(found.choices)};
}

/// Lets the search choose, and tells in `plan` how that went.
Decisions search(const Graph& graph, const Calls& calls, const PlanRequest& request, const Cluster& cluster,
                 Plan& plan) {
  check_names(graph, request.annotations);  // also where the mode has no use for them
  Decisions out;
  out.constraints = request.parallel == Parallel::stand_alone
                        ? stand_alone(graph)
                        : constraints_of(graph, request.annotations, request.devices, request.parallel);
  Redistributor redistributor = redistributor_for(out.constraints.meshes, cluster);
  Problem problem{.graph = &graph,
                  .calls = &calls,
                  .cluster = &cluster,
                  .constraints = out.constraints,
                  .redistributor = &redistributor,
                  .parameters_stay_whole = request.parallel == Parallel::data_parallel};
  if (request.price)
    problem.price = [&](const SearchResult& tried) {
      const Decisions decided =
          with_groups(taken(out.constraints, tried), graph, calls, request.optimizer_parallel);
      const auto leaves =
          leaf_layouts(graph, calls, decided.constraints, decided.choices, request.optimizer_parallel);
      return request.price(written(graph, decided, leaves, plan, request.micro_batches), cluster);
    };
  check_no_contradiction(problem, request.options);
  SearchResult found =
      find_search(plan.search.empty() ? "propagation" : plan.search).run(problem, request.options);
  if (found.status == SearchStatus::infeasible) throw Infeasible(fmt::format("no plan: {}", found.violation));
  plan.status = name_of(found.status);
  plan.compared = std::move(found.compared);
  plan.log = std::move(found.log);
  plan.lower_bound_seconds = found.lower_bound_seconds;
  return taken(std::move(out.constraints), std::move(found));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A plan, and what stands behind its names.
struct Decided {
  Plan plan;
  Decisions decisions;
  std::map<ValueId, Layout> leaves;
};

Decided decide(const Graph& graph, const Calls& calls, const PlanRequest& request, Plan plan,
               const Cluster& cluster) {
  Decisions decisions =
      with_groups(search(graph, calls, request, cluster, plan), graph, calls, request.optimizer_parallel);
  auto leaves =
      leaf_layouts(graph, calls, decisions.constraints, decisions.choices, request.optimizer_parallel);
  plan = with_decisions(std::move(plan), graph, calls, decisions, leaves);
  return {std::move(plan), std::move(decisions), std::move(leaves)};
}

Plan decide_for(const Graph& graph, const PlanRequest& request, Plan plan, const Cluster& cluster) {
  return decide(graph, Calls(graph), request, std::move(plan), cluster).plan;
}

Plan decide_accumulated(const Graph& graph, PlanRequest request, Plan plan, const Cluster& cluster) {
  plan.fingerprint = fingerprint_of(graph);
  request.micro_batches = {plan.pipelining.micro_batches, slots_of(plan.pipelining, 0)};
  return decide_for(graph, request, std::move(plan), cluster);
}

}  // namespace

Plan make_plan(const Graph& graph, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = draft(graph, request);
  const Cluster cluster = cluster_for(plan, request.devices);
  const int asked = request.pipelining.stages;
  if (const int stages = stages_asked(asked > 1 ? std::optional(asked) : std::nullopt, request.annotations);
      stages > 1)
    plan = with_stages(std::move(plan), graph, request, stages);
  else if (plan.pipelining.micro_batches > 1)
    plan = decide_accumulated(accumulated(graph, plan.pipelining.micro_batches).graph, request,
                              std::move(plan), cluster);
  else
    plan = decide_for(graph, request, std::move(plan), cluster);
  plan.search_seconds = seconds_since(start);
  return plan;
}

Planned make_planned(Graph graph, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = draft(graph, request);
  const Cluster cluster = cluster_for(plan, request.devices);
  const Calls calls(graph);
  Decided made = decide(graph, calls, request, std::move(plan), cluster);
  PlannedGraph planned =
      written(std::move(graph), made.decisions, made.leaves, made.plan, request.micro_batches);
  Redistributor redistributor = redistributor_for(planned.graph.meshes, cluster);
  complete(planned.graph, redistributor, planned.update_layouts, calls);
  made.plan.search_seconds = seconds_since(start);
  return {std::move(made.plan), std::move(planned)};
}

}  // namespace shardwright
