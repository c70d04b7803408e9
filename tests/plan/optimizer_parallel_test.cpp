// How states and weights lie under optimizer parallelism, and what a device holds of them.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/groups.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/memory.h"

namespace shardwright {
namespace {

const Mesh dp8{{{"dp", 8}}};
const Mesh dp4_tp2{{{"dp", 4}, {"tp", 2}}};

Type floats(Shape shape) { return {DType::f32, std::move(shape)}; }

std::string state_of(std::string_view weight, const Mesh& mesh, const Shape& shape,
                     const OptimizerParallel& options) {
  Scanner in(weight);
  return to_text(state_layout(parse_layout(in, mesh), {{mesh}}, floats(shape), options), mesh);
}

TEST(OptimizerParallel, takes_the_first_dim_that_an_axis_divides) {
  EXPECT_EQ(state_of("[-, -]", dp8, {16, 8}, {1, 0}), "[dp, -]");
  EXPECT_EQ(state_of("[-, -]", dp8, {12, 8}, {1, 0}), "[-, dp]");
  EXPECT_EQ(state_of("[-, tp]", dp4_tp2, {12, 8}, {1, 0}), "[dp, tp]");
  EXPECT_EQ(state_of("[-, -]", dp4_tp2, {4, 6}, {1, 0}), "[dp, tp]");
  EXPECT_EQ(state_of("[-, -]", dp8, {16, 8}, {0, 0}), "[-, -]");
}

TEST(OptimizerParallel, cuts_the_longest_dim_unevenly_where_none_divides) {
  EXPECT_EQ(state_of("[-]", dp8, {10}, {1, 0}), "[dp]");
  EXPECT_EQ(state_of("[-, -]", dp8, {3, 10}, {1, 0}), "[-, dp]");
  EXPECT_EQ(state_of("[tp, -]", dp4_tp2, {14, 5}, {1, 0}), "[tp.dp, -]");
  EXPECT_EQ(state_of("[-]", dp4_tp2, {2}, {1, 0}), "[dp]");  // there is nothing left to cut
  EXPECT_EQ(state_of("[]", dp8, {}, {1, 0}), "[]");
}

TEST(OptimizerParallel, leaves_what_is_strictly_below_the_threshold) {
  const OptimizerParallel by_default{.level = 1};
  EXPECT_EQ(state_of("[-]", dp8, {16384}, by_default), "[dp]");  // 64 KiB
  EXPECT_EQ(state_of("[-]", dp8, {16376}, by_default), "[-]");
  // The whole parameter counts, not what a rank holds of it.
  EXPECT_EQ(state_of("[tp]", dp4_tp2, {16384}, by_default), "[tp.dp]");
}

TEST(OptimizerParallel, accumulates_gradients_where_the_state_lies_from_level_2_on) {
  const Layout whole = replicated(1);
  EXPECT_EQ(gradient_layout(whole, {{dp8}}, floats({16}), {1, 0}), std::nullopt);
  for (int level : {2, 3})
    EXPECT_EQ(
        gradient_layout(level == 3 ? Layout{.dims = {Axes{0}}} : whole, {{dp8}}, floats({16}), {level, 0}),
        (Layout{.dims = {Axes{0}}}))
        << level;
}

// ---- groups ----

TEST(Groups, are_of_neighbours_among_the_replicas) {
  const Mesh mesh{{{"dp0", 2}, {"dp1", 2}, {"tp", 8}}};
  const Layout over_tp{.dims = {Axes{2}}};
  const Axes shared = axes_that_share(over_tp, mesh, 2);
  EXPECT_EQ(to_text(shared, mesh), "dp1");
  // Replicas 0, 8, 16, 24 in groups of two.
  EXPECT_EQ(mesh.group_of(0, shared), (std::vector<int>{0, 8}));
  EXPECT_EQ(mesh.group_of(16, shared), (std::vector<int>{16, 24}));
  EXPECT_EQ(to_text(axes_that_share(over_tp, mesh, 0), mesh), "dp0.dp1");
  EXPECT_EQ(to_text(axes_that_share(over_tp, mesh, 64), mesh), "dp0.dp1");  // at most so many
}

std::string cut_text(const Mesh& mesh, const std::vector<Layout>& weights, int group) {
  return to_text(cut_for_groups({{mesh}}, weights, group).meshes[0]);
}

TEST(Groups, cut_axes_in_two_where_they_must) {
  EXPECT_EQ(cut_text(dp8, {replicated(1)}, 2), "mesh [dp0=4, dp1=2]");
  EXPECT_EQ(cut_text(dp8, {replicated(1)}, 8), "mesh [dp=8]");
  EXPECT_EQ(cut_text(dp4_tp2, {replicated(1)}, 2), "mesh [dp=4, tp=2]");
  EXPECT_EQ(cut_text(dp4_tp2, {replicated(1)}, 4), "mesh [dp0=2, dp1=2, tp=2]");
  EXPECT_EQ(cut_text(dp4_tp2, {Layout{.dims = {Axes{1}}}}, 2), "mesh [dp0=2, dp1=2, tp=2]");
  EXPECT_EQ(cut_text({{{"a", 2}, {"b", 3}}}, {replicated(1)}, 2), "mesh [a=2, b=3]");
  EXPECT_EQ(cut_text({{{"dp0", 2}, {"dp", 4}}}, {replicated(1)}, 2), "mesh [dp0=2, dp0_=2, dp1=2]");
}

TEST(Groups, keep_layouts_and_strategies_where_they_are) {
  const CutMeshes cut = cut_for_groups({{dp4_tp2}}, {{replicated(1)}}, 4);
  const Layout before{.dims = {Axes{0}, Axes{1}}};
  const Layout after = translate(before, cut.axes_of[0], 0);
  EXPECT_EQ(to_text(after, cut.meshes[0]), "[dp0.dp1, tp]");
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(box(after, cut.meshes[0], {9, 7}, rank), box(before, dp4_tp2, {9, 7}, rank)) << rank;
  EXPECT_EQ(translate(Strategy{.loops = {Axes{0}}, .linear = {Axes{1}}}, cut),
            (Strategy{.loops = {Axes{0, 1}}, .linear = {Axes{2}}}));
}

// ---- programs ----

struct Step {
  Graph graph;
  Plan plan;
  Program program;
};

Step step_of(const std::string& model, PlanRequest request) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
  request.model = model;
  Plan plan = make_plan(m.graph, request);
  Program program = compile(m.graph, plan);
  return {std::move(m.graph), std::move(plan), std::move(program)};
}

PlanRequest data_parallel(int devices, const OptimizerParallel& options) {
  return {.devices = devices,
          .parallel = Parallel::data_parallel,
          .constraints = constraints_of({.optimizer_parallel = options})};
}

std::string layout_of(const Program& p, const std::string& name) {
  const Value& v = p.graph.value(p.graph.find(name));
  return to_text(*v.layout, p.graph.meshes[static_cast<std::size_t>(v.layout->mesh)]);
}

/// Bytes of leaves of `kind` that one rank holds.
std::int64_t bytes_of(const Program& p, OpKind kind) {
  std::int64_t out = 0;
  for (const Node& node : p.graph.nodes)
    if (node.op->kind == kind && !p.graph.value(node.results[0]).global_shape.empty())
      out += p.graph.value(node.results[0]).type.bytes();
  return out;
}

TEST(OptimizerParallel, holds_an_eighth_on_each_of_eight_devices) {
  const std::string model = "ffn:widths=64-32-16-8,batch=32";  // every dim divides
  const Program whole = step_of(model, data_parallel(8, {})).program;
  const Program states = step_of(model, data_parallel(8, {1, 0})).program;
  const Program all = step_of(model, data_parallel(8, {3, 0})).program;
  EXPECT_EQ(8 * bytes_of(states, OpKind::state), bytes_of(whole, OpKind::state));
  EXPECT_EQ(bytes_of(states, OpKind::parameter), bytes_of(whole, OpKind::parameter));
  EXPECT_EQ(8 * bytes_of(all, OpKind::state), bytes_of(whole, OpKind::state));
  EXPECT_EQ(8 * bytes_of(all, OpKind::parameter), bytes_of(whole, OpKind::parameter));
}

/// In the arena, where a tensor begins at a multiple of 64 bytes.
TEST(OptimizerParallel, holds_an_eighth_in_the_arena) {
  const std::string model = "ffn:widths=512-512-512-512,batch=8";
  const auto kinds = [&](const OptimizerParallel& options) {
    const MemoryUse use = memory_use(step_of(model, data_parallel(8, options)).program);
    return std::pair(use.of(MemoryKind::parameters), use.of(MemoryKind::optimizer_state));
  };
  const auto [weights, states] = kinds({});
  constexpr std::int64_t rest = 64 * 16;  // tensors, rounded up
  EXPECT_EQ(kinds({1, 0}).first, weights);
  EXPECT_NEAR(static_cast<double>(kinds({1, 0}).second), static_cast<double>(states) / 8, rest);
  EXPECT_NEAR(static_cast<double>(kinds({3, 0}).first), static_cast<double>(weights) / 8, rest);
  EXPECT_NEAR(static_cast<double>(kinds({3, 0}).second), static_cast<double>(states) / 8, rest);
}

TEST(OptimizerParallel, rounds_up_what_it_cuts_unevenly) {
  const Program p = step_of("ffn:widths=13-11-7-5,batch=24", data_parallel(8, {3, 0})).program;
  EXPECT_EQ(layout_of(p, "dense3.bias"), "[dp]");
  const Value& bias = p.graph.value(p.graph.find("dense1.bias"));
  EXPECT_EQ(bias.type.shape, (Shape{2}));  // 11 over 8
  EXPECT_EQ(bias.global_shape, (Shape{11}));
}

TEST(OptimizerParallel, of_a_group_reduces_scatters_inside_and_reduces_across) {
  const Step s = step_of("matmul_chain:widths=1024-1024,batch=16", data_parallel(8, {1, 0, 2}));
  EXPECT_EQ(to_text(s.plan.stages[0].meshes[0]), "mesh [dp0=4, dp1=2]");
  EXPECT_EQ(layout_of(s.program, "w1"), "[-, -]");
  EXPECT_EQ(layout_of(s.program, "w1.moment1"), "[dp1, -]");
  std::vector<std::string> steps;
  for (const Node& node : s.program.graph.nodes)
    if (node.phase == Phase::update && node.op->step && !is_local(*node.op->step))
      steps.push_back(fmt::format("{} {}", node.op->name, node.attributes.text("over", "")));
  EXPECT_EQ(steps, (std::vector<std::string>{"reduce_scatter dp1", "all_reduce.sum dp0", "all_gather dp1"}));
}

TEST(OptimizerParallel, is_kept_in_the_plan_file) {
  for (const OptimizerParallel& options :
       std::vector<OptimizerParallel>{{}, {1, 0}, {3, 4096, 2}, {2, 65536}}) {
    const Step s = step_of("ffn", data_parallel(8, options));
    const Plan read = parse_plan(to_json(s.plan), "test");
    EXPECT_EQ(read.settings.optimizer_parallel.level, options.level);
    EXPECT_EQ(options.level == 0 ? OptimizerParallel{} : read.settings.optimizer_parallel, options);
    EXPECT_EQ(to_json(read), to_json(s.plan));
    EXPECT_EQ(bytes_of(compile(s.graph, read), OpKind::state), bytes_of(s.program, OpKind::state));
  }
}

TEST(OptimizerParallel, of_plan_files_without_a_threshold_shares_everything) {
  std::string json = to_json(step_of("ffn", data_parallel(8, {1, 0})).plan);
  const std::string line = " \"zero_threshold\": 0,\n";
  const std::size_t at = json.find(line);
  ASSERT_NE(at, json.npos);
  json.erase(at, line.size());
  EXPECT_EQ(parse_plan(json, "test").settings.optimizer_parallel, (OptimizerParallel{1, 0}));
}

}  // namespace
}  // namespace shardwright
