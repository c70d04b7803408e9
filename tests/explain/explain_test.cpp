// Two candidates of one operator differ by as much as the two whole steps do.
#include "shardwright/explain/explain.h"
#include "shardwright/base/index.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/optimize.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

struct Case {
  std::string name;
  std::string model;
  std::string optimizer = "sgd";
  int devices = 4;
  int optimizer_parallel = 0;
  std::string dataset = {};
  std::size_t every = 1;  // of so many candidates one is compared
  double clip_norm = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Explained : public testing::TestWithParam<Case> {};

struct Step {
  Graph graph;
  Plan plan;
};

Step step_of(const Case& c) {
  Model model = build_model(c.model);
  add_train_step(model.graph, model.loss, {c.optimizer, {{"rate", 0.01}}, c.clip_norm});
  Constraints annotations = model.constraints;
  if (!c.dataset.empty()) annotations.dataset = parse_dataset(c.dataset);
  Plan plan = make_plan(
      model.graph, {.model = c.model,
                    .devices = c.devices,
                    .search = "recursive",
                    .constraints = merged(
                        annotations, constraints_of({.optimizer_parallel = {c.optimizer_parallel, 0}}))});
  return {std::move(model.graph), std::move(plan)};
}

/// `plan` with another strategy of one operator, its leaves as a new plan would lay them.
Plan changed(const Step& step, const Explanation& explanation, const Strategy& strategy) {
  Plan plan = step.plan;
  const Mesh& mesh = plan.stages[0].meshes[at(strategy.mesh)];
  for (PlannedOperator& op : plan.stages[0].operators) {
    if (op.name != explanation.planned.name) continue;
    op.mesh = strategy.mesh;
    op.in.clear();
    op.strategy.clear();
    for (std::size_t l = 0; l < strategy.loops.size(); ++l) {
      std::vector<std::string> axes;
      for (int a : strategy.loops[l]) axes.push_back(mesh.axes[at(a)].name);
      if (!axes.empty()) op.strategy.emplace_back(explanation.rule.loops[l].name, axes);
    }
  }
  const ValueId v = step.graph.find(explanation.planned.name);
  const NodeId id = step.graph.value(v).producer;
  const NodeLayouts layouts = layouts_of(explanation.rule, strategy);
  const Node& node = step.graph.node(id);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value& operand = step.graph.value(node.operands[i]);
    const OpKind kind = step.graph.node(operand.producer).op->kind;
    if (kind == OpKind::compute || first_forward_reader(step.graph, node.operands[i]).node != id) continue;
    Layout layout = layouts.operands[i];
    if (kind == OpKind::parameter)
      layout = weight_layout(layout, plan.stages[0].meshes, operand.type, plan.settings.optimizer_parallel);
    if (operand.name != "input" || plan.stages[0].layouts.at("input") == "[dp, -]")
      plan.stages[0].layouts[operand.name] = to_text(layout, plan.stages[0].meshes[at(layout.mesh)]);
  }
  return plan;
}

/// Of a step without the passes that fuse kernels and join transfers.
double whole_seconds(const Step& step, const Plan& plan, const Cluster& cluster) {
  const Graph graph = completed(apply(plan, step.graph).stages[0], plan.cluster).graph;
  Redistributor redistributor(graph.meshes, {mesh_cost(cluster, graph.meshes[0])}, {.even_only = true});
  return estimate(assign_buffers(lower(graph, redistributor), {redistributor}), cluster).step_seconds();
}

TEST_P(Explained, candidates_differ_as_whole_steps_do) {
  const Step step = step_of(GetParam());
  Explainer explainer(apply(step.plan, step.graph).stages[0], step.plan);
  int compared = 0;
  for (const PlannedOperator& op : step.plan.stages[0].operators) {
    const Explanation e = explainer.explain(op.name, 1000);
    const double base = whole_seconds(step, step.plan, explainer.cluster());
    for (std::size_t i = 0; i < e.candidates.size(); i += GetParam().every) {
      const Candidate& c = e.candidates[i];
      const double whole = whole_seconds(step, changed(step, e, c.strategy), explainer.cluster()) - base;
      const double near = c.cost.seconds() - e.candidates[e.choice].cost.seconds();
      EXPECT_NEAR(near, whole, 1e-12)
          << op.name << " " << to_text(c.strategy, e.rule, step.plan.stages[0].meshes[at(c.strategy.mesh)]);
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Small, Explained,
    testing::Values(
        Case{"chain", "matmul_chain:widths=16-32-16-8,batch=16"},
        Case{"ffn", "ffn:widths=32-16-16-8,batch=16"}, Case{"adam", "three_layer", "adam"},
        Case{"level_1", "matmul_chain:widths=16-32-16", "adam", 4, 1},
        Case{"level_3", "matmul_chain:widths=16-32-16", "adam", 4, 3},
        Case{"clipped", "matmul_chain:widths=16-32-16", "adam", 4, 1, {}, 1, 0.5},
        Case{"two_axes", "matmul_chain:batch=2,widths=16-32-16-8", "momentum", 8},
        Case{
            "decoder", "llama:layers=1,hidden=16,heads=2,ffn=32,vocab=32,seq=8,batch=2", "adam", 4, 0, {}, 5},
        Case{"gpt", "gpt:layers=1,hidden=16,heads=2,vocab=32,seq=8,batch=2", "sgd", 4, 0, {}, 5}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace shardwright
