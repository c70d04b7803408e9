#include "shardwright/search/planning/stages_of_plan.h"

#include <algorithm>
#include <set>

#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/stage_cut.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

/// What is said of one stage's part of the whole network.
Constraints of_stage(Constraints all, const Graph& whole, const Graph& stage) {
  std::erase_if(all.tensors, [&](const auto& named) { return !makes(stage, named.first); });
  if (!all.dataset || !all.dataset->word.empty()) return all;
  const std::vector<TensorSplit> in = std::exchange(all.dataset->splits.in, {});
  std::size_t input = 0;
  for (const Node& node : whole.nodes) {
    if (node.op->kind != OpKind::input) continue;
    if (input < in.size() && makes(stage, whole.value(node.results.front()).name))
      all.dataset->splits.in.push_back(in[input]);
    ++input;
  }
  if (all.dataset->splits.in.empty()) all.dataset.reset();
  return all;
}

}  // namespace

std::map<std::string, int> stages_by_name(const Constraints& constraints) {
  std::map<std::string, int> out;
  for (const auto& [range, stage] : constraints.stages)
    for (const std::string& name : names_of_range(range))
      if (const auto [it, is_new] = out.emplace(name, stage); !is_new && it->second != stage)
        throw error("constraints: '{}' is in stage {} and, as '{}' says, in stage {}", name, it->second,
                    range, stage)
            .between({name, "stage", std::to_string(stage), std::to_string(it->second)});
  return out;
}

void check_stages(const Constraints& constraints, const Pipelining& p) {
  for (const auto& [name, part] : constraints.stages)
    if (part >= p.parts())
      throw error("annotations: '{}' is in stage {} but there are {}, from stage 0 on", name, part, p.parts())
          .between({name, "stage", std::to_string(part), std::to_string(p.parts())});
}

StagedGraph parts_of(const Graph& graph, const PlanRequest& request, const Plan& plan) {
  const Pipelining& p = plan.settings.pipelining;
  if (plan.devices() % p.stages)
    throw error("{} devices cannot be shared evenly by {} stages", plan.devices(), p.stages);
  std::vector<int> stage_of;
  if (p.stages > 1 && !request.stage_of.empty())
    stage_of = request.stage_of;
  else if (p.stages > 1 && !request.constraints.stages.empty())
    stage_of = asked_stages(graph, stages_by_name(request.constraints), p.parts());
  else if (p.stages > 1 && request.is_set)
    stage_of = layered_stages(graph, p.parts(), request.stage_layers);
  else if (p.stages > 1)
    stage_of = even_stages(graph, Calls(graph), plan.cluster,
                           {.stages = p.parts(), .micro_batches = p.batch_parts()});
  return cut_into_stages(graph, stage_of, p.parts(), p.batch_parts());
}

PlanRequest request_of_stage(const PlanRequest& request, const Plan& plan, const Graph& whole,
                             const Graph& part, int number) {
  const Pipelining& p = plan.settings.pipelining;
  PlanRequest out = request;
  out.devices = plan.devices() / p.stages;
  out.cluster = plan.cluster.part(p.stage_of(number) * out.devices, out.devices);
  out.micro_batches = micro_batches_of(p, number);
  if (p.stages == 1) return out;
  if (p.schedule.chunks > 1)  // they share a device
    out.options.memory_cap =
        request.options.memory_cap.value_or(usable_bytes(*out.cluster)) / p.schedule.chunks;
  out.constraints = of_stage(request.constraints, whole, part);
  if (out.devices == 1) out.parallel = Parallel::stand_alone;
  return out;
}

}  // namespace shardwright
