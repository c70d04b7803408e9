#include "shardwright/search/planning/stages_of_plan.h"

#include <algorithm>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/search/planning/stage_cut.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

/// What the annotations of the whole network say of one stage's part.
Annotations annotations_of(const Annotations& all, const Graph& whole, const Graph& stage) {
  Annotations out = all;
  out.stages.clear();
  std::erase_if(out.nodes, [&](const auto& named) { return !makes(stage, named.first); });
  out.comm_fusion.clear();
  out.recompute.clear();
  if (!all.dataset) return out;
  out.dataset->in.clear();
  std::size_t input = 0;
  for (const Node& node : whole.nodes) {
    if (node.op->kind != OpKind::input) continue;
    if (input < all.dataset->in.size() && makes(stage, whole.value(node.results.front()).name))
      out.dataset->in.push_back(all.dataset->in[input]);
    ++input;
  }
  if (out.dataset->in.empty()) out.dataset.reset();
  return out;
}

}  // namespace

int stages_asked(std::optional<int> asked, int chunks, const Annotations& annotations) {
  int parts = 1;
  for (const auto& [name, part] : annotations.stages) {
    parts = std::max(parts, part + 1);
    if (asked && parts > *asked * chunks)
      throw error("annotations: '{}' is in stage {} but there are {}, from stage 0 on", name, part,
                  *asked * chunks);
  }
  if (asked || parts == 1) return asked.value_or(1);
  if (parts % chunks)
    throw error("annotations name {} stages but the devices of each take {} of them", parts, chunks);
  return parts / chunks;
}

Plan with_stages(Plan plan, const Graph& graph, const PlanRequest& request, int stages) {
  if (plan.devices % stages)
    throw error("{} devices cannot be shared evenly by {} stages", plan.devices, stages);
  const int devices = plan.devices / stages;
  const std::int64_t usable = usable_bytes(plan.cluster);
  plan.settings.pipelining.stages = stages;
  const int count = plan.settings.pipelining.parts();
  const std::vector<int> stage_of =
      request.annotations.stages.empty()
          ? even_stages(graph, Calls(graph), plan.cluster,
                        {.stages = count, .micro_batches = plan.settings.pipelining.micro_batches})
          : asked_stages(graph, request.annotations.stages, count);
  const StagedGraph parts = cut_into_stages(graph, stage_of, count, plan.settings.pipelining.micro_batches);
  check_names(graph, request.annotations);
  for (const Graph& part : parts.stages) {
    PlanRequest of_stage = request;
    const int number = static_cast<int>(plan.stages.size());
    of_stage.micro_batches = micro_batches_of(plan.settings.pipelining, number);
    if (const int chunks = plan.settings.pipelining.schedule.chunks; chunks > 1)  // they share a device
      of_stage.options.memory_cap = request.options.memory_cap.value_or(usable) / chunks;
    of_stage.devices = devices;
    of_stage.cluster = plan.cluster.part(number % stages * devices, devices);
    of_stage.is_of_stage = true;
    of_stage.settings = plan.settings;
    of_stage.settings.pipelining = {};
    std::erase_if(of_stage.settings.comm_fusion.parameters,
                  [&](const auto& named) { return !makes(part, named.first); });
    of_stage.annotations = annotations_of(request.annotations, graph, part);
    if (devices == 1) of_stage.parallel = Parallel::stand_alone;
    plan.stages.push_back(make_plan(part, of_stage));
  }
  return plan;
}

}  // namespace shardwright
