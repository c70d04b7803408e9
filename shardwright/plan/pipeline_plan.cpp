#include "shardwright/plan/pipeline_plan.h"

#include <algorithm>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/stage_cut.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Made in the part, not received by it.
bool has_value(const Graph& part, const std::string& name) {
  return std::any_of(part.values.begin(), part.values.end(), [&](const Value& v) {
    return v.name == name && part.node(v.producer).op->kind != OpKind::receive;
  });
}

/// What the annotations of the whole network say of one stage's part.
Annotations annotations_of(const Annotations& all, const Graph& whole, const Graph& stage) {
  Annotations out = all;
  out.stages.clear();
  std::erase_if(out.nodes, [&](const auto& named) { return !has_value(stage, named.first); });
  out.comm_fusion.clear();
  out.recompute.clear();
  if (!all.dataset) return out;
  out.dataset->in.clear();
  std::size_t input = 0;
  for (const Node& node : whole.nodes) {
    if (node.op->kind != OpKind::input) continue;
    if (input < all.dataset->in.size() && has_value(stage, whole.value(node.results.front()).name))
      out.dataset->in.push_back(all.dataset->in[input]);
    ++input;
  }
  if (out.dataset->in.empty()) out.dataset.reset();
  return out;
}

}  // namespace

int stages_asked(std::optional<int> asked, const Annotations& annotations) {
  int stages = 1;
  for (const auto& [name, stage] : annotations.stages) {
    stages = std::max(stages, stage + 1);
    if (stages > asked.value_or(stages))
      throw error("annotations: '{}' is in stage {} but there are {}, from stage 0 on", name, stage, *asked);
  }
  return asked.value_or(stages);
}

Plan with_stages(Plan plan, const Graph& graph, const PlanRequest& request, int stages) {
  if (plan.devices % stages)
    throw error("{} devices cannot be shared evenly by {} stages", plan.devices, stages);
  const int devices = plan.devices / stages;
  const std::string cluster = part_name(plan.cluster, devices);
  const std::vector<int> stage_of =
      request.annotations.stages.empty()
          ? even_stages(graph, Calls(graph), cluster_called(plan.cluster),
                        {.stages = stages, .micro_batches = plan.pipelining.micro_batches})
          : asked_stages(graph, request.annotations.stages, stages);
  plan.pipelining.stages = stages;
  const StagedGraph parts = cut_into_stages(graph, stage_of, stages, plan.pipelining.micro_batches);
  check_names(graph, request.annotations);
  for (const Graph& part : parts.stages) {
    PlanRequest of_stage = request;
    of_stage.micro_batches = {plan.pipelining.micro_batches,
                              slots_of(plan.pipelining, static_cast<int>(plan.stages.size()))};
    of_stage.devices = devices;
    of_stage.cluster = cluster;
    of_stage.pipelining = {};
    of_stage.is_of_stage = true;
    of_stage.recompute = plan.recompute;
    of_stage.comm_fusion = plan.comm_fusion;
    std::erase_if(of_stage.comm_fusion.parameters,
                  [&](const auto& named) { return !has_value(part, named.first); });
    of_stage.annotations = annotations_of(request.annotations, graph, part);
    if (devices == 1) of_stage.parallel = Parallel::stand_alone;
    plan.stages.push_back(make_plan(part, of_stage));
  }
  return plan;
}

namespace {

void check_fused_parameters(const Graph& graph, const Plan& plan) {
  if (plan.comm_fusion.parameters.empty()) return;
  std::set<std::string> known;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter) known.insert(graph.value(node.results.front()).name);
  for (const auto& [name, number] : plan.comm_fusion.parameters)
    if (!known.contains(name))
      throw error("plan: comm_fusion: there is no parameter '{}'{}", name,
                  near_names(name, std::vector(known.begin(), known.end())));
}

}  // namespace

void check_fits(const Plan& plan, const Graph& graph) {
  if (plan.stages.empty()) {
    apply(plan, staged(graph, plan).stages.front());
    return;
  }
  if (const std::string fingerprint = fingerprint_of(graph); fingerprint != plan.fingerprint)
    throw error("the plan is for '{}' ({}), not for this network ({}): other sizes, types, batch or layers",
                plan.model, plan.fingerprint, fingerprint);
  StagedGraph parts = staged(graph, plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) try {
      apply(plan.stages[s], std::move(parts.stages[s]));
    } catch (const Error& e) {
      throw with_context(e, fmt::format("stage {}", s));
    }
}

StagedGraph staged(const Graph& graph, const Plan& plan) {
  check_fused_parameters(graph, plan);
  if (plan.stages.empty()) return cut_into_stages(graph, {}, 1, plan.pipelining.micro_batches);
  std::map<std::string, int> stages;
  std::vector<int> stage_of(graph.nodes.size(), -1);
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
    for (const PlannedOperator& op : plan.stages[at(s)].operators) stages.emplace(op.name, s);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const auto it = stages.find(graph.name_of(id));
    if (it == stages.end())
      throw error("plan: {} is in no stage; it is for another network, or was changed", graph.name_of(id));
    stage_of[at(id.index)] = it->second;
  }
  StagedGraph out =
      cut_into_stages(graph, stage_of, static_cast<int>(plan.stages.size()), plan.pipelining.micro_batches);
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
    for (const PlannedOperator& op : plan.stages[at(s)].operators)
      if (stages.at(op.name) != s && !has_value(out.stages[at(s)], op.name))
        throw error("plan: {} is in stage {} and in stage {}; only constants are made in several", op.name,
                    stages.at(op.name), s);
  return out;
}

}  // namespace shardwright
