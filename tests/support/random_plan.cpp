#include "tests/support/random_plan.h"

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

Plan random_plan(const Graph& graph, int devices, std::uint64_t seed) {
  Dice dice(seed);
  const Mesh mesh = random_mesh(devices, dice);
  Plan plan{.fingerprint = fingerprint_of(graph),
            .devices = devices,
            .cluster = fmt::format("cpu:{}", devices),
            .parallel = "auto_parallel",
            .meshes = {mesh}};
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::compute || node.phase != Phase::forward) continue;
    const Rule rule = rule_of(graph, node);
    const auto all = legal_strategies(rule, mesh, {.linear = true, .all_orders = true});
    const Strategy& strategy = all[dice.below(all.size())];
    plan.operators.push_back(planned(graph, id, rule, strategy, mesh));
    const NodeLayouts layouts = layouts_of(rule, strategy);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = graph.value(node.operands[i]);
      if (graph.node(v.producer).op->kind != OpKind::compute)
        plan.layouts.emplace(v.name, to_text(without_halo(reduced(layouts.operands[i])), mesh));
    }
  }
  plan.optimizer_parallel = {static_cast<int>(dice.below(4)), 0};
  return parse_plan(to_json(plan), "random plan");
}

}  // namespace shardwright::testing
