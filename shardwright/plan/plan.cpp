#include <array>
#include <map>
#include <set>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/base/index.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/plan.h"

namespace shardwright {
namespace {

constexpr std::array<std::string_view, 4> mode_names{"stand_alone", "data_parallel", "semi_auto_parallel",
                                                     "auto_parallel"};

}  // namespace

std::string_view name_of(Parallel mode) { return mode_names[static_cast<std::size_t>(mode)]; }

Parallel parallel_called(std::string_view name) {
  for (std::size_t i = 0; i < mode_names.size(); ++i)
    if (mode_names[i] == name) return static_cast<Parallel>(i);
  throw unknown("parallel mode", name, std::vector<std::string>(mode_names.begin(), mode_names.end()));
}

std::string_view name_of(SearchStatus status) {
  constexpr std::array<std::string_view, 4> names{"optimal", "feasible", "infeasible", "timeout"};
  return names[static_cast<std::size_t>(status)];
}

std::string fingerprint_of(const Graph& graph) {
  std::uint64_t h = 0;
  const auto add = [&h](std::uint64_t x) { h = splitmix64(h ^ x) + 1; };
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) break;
    add(hash_of(node.op->name));
    for (ValueId v : node.operands) add(static_cast<std::uint64_t>(v.index));
    if (!node.attributes.empty()) add(hash_of(to_text(node.attributes)));
    for (ValueId v : node.results) {
      add(hash_of(graph.value(v).name));
      add(static_cast<std::uint64_t>(graph.value(v).type.dtype));
      for (std::int64_t n : graph.value(v).type.shape) add(static_cast<std::uint64_t>(n));
    }
  }
  return fmt::format("{:016x}", h);
}

namespace {

/// What a backward sends lies there until the stage before takes it, one for each micro-batch that is alive; others take
/// it too late.
void check_gradients(const StagedGraph& parts, const Pipelining& p) {
  if ((p.schedule.chunks == 1 && p.schedule.order != ChunkOrder::table) || p.micro_batches == 1) return;
  for (const Crossing& c : parts.crossings) {
    const Graph& giver = parts.stages[at(c.from)];
    const Value& sent = giver.value(giver.sends[at(c.send)]);
    const Graph& taker = parts.stages[at(c.to)];
    const bool is_gradient = giver.node(sent.producer).phase == Phase::backward &&
                             taker.node(taker.value(taker.find(c.receive)).producer).phase == Phase::backward;
    if (is_gradient && c.from - c.to > 1)
      throw error(
          "{}: stage {} reads what stage {} makes, so its gradient would skip the stages between (%{}); cut "
          "into fewer chunks, or elsewhere by annotations of \"stage\"",
          name_of(p.schedule), c.from, c.to, sent.name);
  }
}

void check_fused_parameters(const Graph& graph, const Plan& plan) {
  if (plan.settings.comm_fusion.parameters.empty()) return;
  std::set<std::string> known;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter) known.insert(graph.value(node.results.front()).name);
  for (const auto& [name, number] : plan.settings.comm_fusion.parameters)
    if (!known.contains(name))
      throw error("plan: comm_fusion: there is no parameter '{}'{}", name,
                  near_names(name, std::vector(known.begin(), known.end())));
}

/// Files of format 1 that only accumulate have the fingerprint of the network that does.
bool is_for(const Plan& plan, const Graph& graph, const std::string& fingerprint) {
  const int micro_batches = plan.settings.pipelining.batch_parts();
  return fingerprint == plan.fingerprint ||
         (plan.stages.size() == 1 && micro_batches > 1 &&
          fingerprint_of(accumulated(graph, micro_batches).graph) == plan.fingerprint);
}

}  // namespace

StagedGraph staged(const Graph& graph, const Plan& plan) {
  if (const std::string fingerprint = fingerprint_of(graph); !is_for(plan, graph, fingerprint))
    throw error("the plan is for '{}' ({}), not for this network ({}): other sizes, types, batch or layers",
                plan.model, plan.fingerprint, fingerprint);
  check_fused_parameters(graph, plan);
  const int count = static_cast<int>(plan.stages.size());
  std::map<std::string_view, int> stages;
  for (int s = 0; s < count; ++s)
    for (const PlannedOperator& op : plan.stages[at(s)].operators) stages.emplace(op.name, s);
  std::vector<int> stage_of(graph.nodes.size(), -1);
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op->kind != OpKind::compute) continue;
    const auto it = stages.find(graph.name_of(id));
    if (it != stages.end())
      stage_of[at(id.index)] = it->second;
    else if (count > 1)  // of one, applying it says what is wrong
      throw error("plan: {} is in no stage; it is for another network, or was changed", graph.name_of(id));
  }
  StagedGraph out = cut_into_stages(graph, stage_of, count, plan.settings.pipelining.batch_parts());
  check_gradients(out, plan.settings.pipelining);
  for (int s = 0; s < count; ++s)
    for (const PlannedOperator& op : plan.stages[at(s)].operators)
      if (stages.at(op.name) != s && !makes(out.stages[at(s)], op.name))
        throw error("plan: {} is in stage {} and in stage {}; only constants are made in several", op.name,
                    stages.at(op.name), s);
  return out;
}

std::string to_text(const UnevenCut& cut) {
  const std::string grain = cut.grain == 1 && cut.is_by_shares ? "" : fmt::format("/{}", cut.grain);
  return grain + (cut.is_by_shares ? "/shares" : "");
}

Cluster Plan::cluster_of(std::size_t stage) const {
  const int group = settings.pipelining.stage_of(static_cast<int>(stage));
  int first = 0;
  for (int s = 0; s < group; ++s) first += stages[at(s)].devices();
  return cluster.part(first, stages[stage].devices());
}

}  // namespace shardwright
