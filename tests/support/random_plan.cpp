#include "tests/support/random_plan.h"

#include <array>
#include <set>

#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"

namespace shardwright::testing {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : stream_(seed, "plan") {}
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(stream_.below(next_++, static_cast<std::int64_t>(n)));
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

Mesh random_mesh(int devices, Dice& dice) {
  Mesh mesh;
  for (int rest = devices; rest > 1;) {
    int size = 2 + static_cast<int>(dice.below(static_cast<std::size_t>(rest) - 1));
    while (rest % size) --size;
    if (size == 1) size = rest;
    mesh.axes.push_back({fmt::format("a{}", mesh.axes.size()), size});
    rest /= size;
  }
  return mesh;
}

/// As names, the way a plan file says it.
PlannedOperator planned(const Graph& graph, NodeId id, const Rule& rule, const Strategy& strategy,
                        const Mesh& mesh) {
  PlannedOperator out{.name = graph.name_of(id), .kind = graph.node(id).op->name};
  const auto add = [&](const std::string& key, const Axes& axes) {
    std::vector<std::string> names;
    for (int a : axes) names.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
    if (!names.empty()) out.strategy.emplace_back(key, names);
  };
  for (std::size_t l = 0; l < rule.loops.size(); ++l) add(rule.loops[l].name, strategy.loops[l]);
  for (std::size_t g = 0; g < rule.linear.size(); ++g) add(fmt::format("+{}", g), strategy.linear[g]);
  return out;
}

}  // namespace

namespace {

StagePlan random_stage(const Graph& graph, int devices, Dice& dice) {
  const Mesh mesh = random_mesh(devices, dice);
  StagePlan out{.meshes = {mesh}};
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const Rule rule = rule_of(graph, node);
    const auto all = legal_strategies(rule, mesh, {.linear = true, .all_orders = true});
    const Strategy& strategy = all[dice.below(all.size())];
    out.operators.push_back(planned(graph, id, rule, strategy, mesh));
    const NodeLayouts layouts = layouts_of(rule, strategy);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = graph.value(node.operands[i]);
      if (graph.node(v.producer).op->kind != OpKind::compute)
        out.layouts.emplace(v.name, to_text(without_halo(reduced(layouts.operands[i])), mesh));
    }
  }
  return out;
}

/// Cuts after random operators; what only makes constants goes to every stage, so that some have nothing: others are drawn then.
StagedGraph randomly_cut(const Graph& graph, std::span<const NodeId> operators, const Pipelining& p,
                         Dice& dice) {
  for (int tries = 0;; ++tries) {
    std::set<std::size_t> cuts;
    while (cuts.size() + 1 < static_cast<std::size_t>(p.stages))
      cuts.insert(1 + dice.below(operators.size() - 1));
    std::vector<int> stage_of(graph.nodes.size(), 0);
    for (std::size_t i = 0; i < operators.size(); ++i)
      stage_of[static_cast<std::size_t>(operators[i].index)] =
          static_cast<int>(std::distance(cuts.begin(), cuts.upper_bound(i)));
    try {
      return cut_into_stages(graph, stage_of, p.stages, p.micro_batches);
    } catch (const Error&) {
      if (tries == 100) throw;
    }
  }
}

}  // namespace

Plan random_plan(const Graph& graph, int devices, std::uint64_t seed) {
  Dice dice(seed);
  Plan plan{.fingerprint = fingerprint_of(graph),
            .cluster = host_cluster(devices),
            .parallel = "auto_parallel",
            .stages = {random_stage(graph, devices, dice)}};
  plan.settings.optimizer_parallel = {static_cast<int>(dice.below(4)), 0};
  return parse_plan(to_json(plan), "random plan");
}

Plan random_pipeline(const Graph& graph, int devices, int micro_batches, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<NodeId> operators;
  for (NodeId id : graph.node_ids())
    if (graph.node(id).op->kind == OpKind::compute && graph.node(id).phase == Phase::forward)
      operators.push_back(id);
  const int most = std::min(devices, 4);
  Plan plan{.fingerprint = fingerprint_of(graph),
            .cluster = host_cluster(devices),
            .parallel = "auto_parallel",
            .stages = {}};
  plan.settings.optimizer_parallel = {static_cast<int>(dice.below(4)), 0};
  plan.settings.pipelining = {dice.below(2) ? Schedule::gpipe() : Schedule::one_forward_one_backward(),
                              1 + static_cast<int>(dice.below(static_cast<std::size_t>(most))),
                              micro_batches};
  constexpr std::array recomputes{"none", "selected", "full", "full:communication=false",
                                  "full:shard_kept=true"};
  constexpr std::array fusions{"auto", "none", "size:1", "index:0,2"};
  plan.settings.recompute = parse_recompute(recomputes[dice.below(recomputes.size())]);
  plan.settings.comm_fusion = parse_comm_fusion(fusions[dice.below(fusions.size())]);
  const int stages = plan.settings.pipelining.stages;
  const StagedGraph parts = randomly_cut(graph, operators, plan.settings.pipelining, dice);
  int left = devices;
  for (int s = 0; s < stages; ++s) {
    const int rest = stages - s - 1;
    const int own =
        rest == 0 ? left : 1 + static_cast<int>(dice.below(static_cast<std::size_t>(left - rest)));
    left -= own;
    Dice of_stage(seed + static_cast<std::uint64_t>(s));
    plan.stages.push_back(random_stage(parts.stages[static_cast<std::size_t>(s)], own, of_stage));
  }
  return parse_plan(to_json(plan), "random pipeline");
}

}  // namespace shardwright::testing
