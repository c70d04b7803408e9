// Functional sharding: what is said of an edge or a parameter stands in the plan and in the program as it was said,
// what is inside is found, and the losses are those of one device.

#include "shardwright/frontend/shard.h"

#include <gtest/gtest.h>

#include "shardwright/base/random.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/graph/text.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/compile.h"
#include "tests/support/layouts.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::Draw;

struct Block {
  Dense dense1{"block.dense1", 24, 16};
  Operator relu1 = relu("block.relu1");
  Dense dense2{"block.dense2", 16, 24};
  Traced operator()(Traced x) const { return dense2(relu1(dense1(x))); }
};

struct Net {
  Block block;
  Dense head{"head", 24, 8};
};

using Body = std::function<Traced(const Net&, Traced)>;

Traced plain(const Net& net, Traced x) { return net.head(net.block(x)); }

/// A body whose block is sharded as `options` say.
Body with(ShardOptions options) {
  if (options.name == "sharded") options.name = "region";
  return [options](const Net& net, Traced x) { return net.head(shard(net.block, options)(x)); };
}

const InputTypes inputs{{"x", {DType::f32, {16, 24}}}, {"label", {DType::i32, {16}}}};

ForwardFunction forward_of(const Net& net, const Body& body) {
  return [&net, body](const std::vector<Traced>& in) {
    return LossAndAux{CrossEntropyLoss{}(body(net, in[0]), in[1])};
  };
}

std::vector<double> losses(const Body& body, const TrainOptions& options) {
  const Net net;
  TrainStep step(forward_of(net, body), inputs, adam(0.01), options);
  std::vector<double> out;
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<double> x(16 * 24), label(16);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = RandomStream(i, "x").normal(k);
    for (std::size_t k = 0; k < label.size(); ++k)
      label[k] = static_cast<double>(RandomStream(i, "label").below(k, 8));
    out.push_back(step({make_tensor(inputs[0].second, x), make_tensor(inputs[1].second, label)}));
  }
  return out;
}

void expect_losses_of_one_device(const Body& body, const TrainOptions& options) {
  static const std::vector<double> want = losses(plain, {});
  const std::vector<double> got = losses(body, options);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << "step " << i;
}

PlannedNetwork planned(const Body& body, const TrainOptions& options) {
  const Net net;
  return plan_network(forward_of(net, body), inputs, adam(0.01), options);
}

const PlannedOperator& planned_operator(const Plan& plan, const std::string& name) {
  for (const PlannedOperator& op : plan.stages[0].operators)
    if (op.name == name) return op;
  throw error("the plan has no {}", name);
}

using Parts = std::vector<std::vector<std::int64_t>>;

/// Layout in the lowered program of the value called `name`.
std::string lowered_layout(const PlannedNetwork& network, const std::string& name) {
  PlannedGraph planned = completed(apply(network.plan, network.graph).stages[0], network.plan.cluster);
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : planned.graph.meshes) costs.push_back(uniform_cost(mesh));
  Redistributor redistributor(planned.graph.meshes, costs, {.even_only = true});
  const Graph program = lower(planned.graph, redistributor).graph;
  const Value& v = program.value(program.find(name));
  return to_text(*v.layout, program.meshes[static_cast<std::size_t>(v.layout->mesh)]);
}

std::string refusal(const Body& body) {
  return error_of([&] { planned(body, {.devices = 8}); });
}

TEST(Shard, keeps_what_is_said_in_parts) {
  const Body body = with({.in = {{2, 4}},
                          .out = {{8, 1}},
                          .parameters = {{"dense1.weight", {1, 8}}, {"block.dense2.bias", {4}}}});
  const Plan plan = planned(body, {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "region.in0").in, (Parts{{2, 4}}));
  EXPECT_EQ(planned_operator(plan, "region.out0").in, (Parts{{8, 1}}));
  EXPECT_EQ(plan.stages[0].layouts.at("block.dense1.weight"), "[-, x0.x1.x2]");
  EXPECT_EQ(plan.stages[0].layouts.at("block.dense2.bias"), "[x0.x1]");
  EXPECT_EQ(to_text(plan.stages[0].meshes.at(0)), "mesh [x0=2, x1=2, x2=2]");
  expect_losses_of_one_device(body, {.devices = 8});
}

TEST(Shard, keeps_what_is_said_by_layouts) {
  const DeviceLayout layout({2, 2, 2}, {"dp", "sp", "mp"});
  const Body body = with({.in = {layout("dp", {"mp", "sp"})},
                          .out = {layout({"sp", "dp"}, "mp")},
                          .parameters = {{"dense2.weight", layout("mp", "sp")}}});
  PlannedNetwork network = planned(body, {.devices = 8});
  EXPECT_EQ(network.plan.stages[0].layouts.at("block.dense2.weight"), "[mp, sp]");
  EXPECT_EQ(lowered_layout(network, "region.in0"), "[dp, mp.sp]");
  EXPECT_EQ(lowered_layout(network, "region.out0"), "[sp.dp, mp]");
  EXPECT_EQ(lowered_layout(network, "block.dense2.weight"), "[mp, sp]");
  const Program program = compile(network.graph, network.plan);
  EXPECT_EQ(program.graph.value(program.graph.find("block.dense2.weight")).type.shape, (Shape{8, 12}));
  EXPECT_EQ(program.graph.value(program.graph.find("x")).type.shape, (Shape{8, 6}));  // read by the edge only
  expect_losses_of_one_device(body, {.devices = 8});
}

TEST(Shard, leaves_no_node_in_the_program) {
  PlannedNetwork network = planned(with({.in = {{2, 4}}, .out = {{1, 8}}}), {.devices = 8});
  EXPECT_NE(to_text(network.graph).find("%region.in0 = reshard %x"), std::string::npos);
  EXPECT_EQ(to_text(compile(network.graph, network.plan).graph).find("reshard"), std::string::npos);
  const Body on_one = with({.in = {{2, 4}}});
  network = planned(on_one, {});
  EXPECT_EQ(to_text(compile(network.graph, network.plan).graph).find("reshard"), std::string::npos);
  expect_losses_of_one_device(on_one, {});
}

TEST(Shard, what_is_free_is_found) {
  const Plan plan =
      planned(with({.parameters = {{"dense1.weight", {1, 8}}}}), {.devices = 8, .search = "propagation"})
          .plan;
  EXPECT_EQ(planned_operator(plan, "block.dense1.matmul").in, (Parts{{1, 1}, {1, 8}}));
  EXPECT_EQ(to_text(planned_operator(plan, "block.dense1.matmul").reason),
            "from block.dense1.weight: no communication");
  EXPECT_EQ(planned_operator(plan, "block.relu1").in, (Parts{{1, 8}}));
}

TEST(Shard, annotations_inside_are_kept) {
  Net net;
  net.block.dense2.matmul.shard({{1, 4}, {4, 2}});
  const Body body = with({.in = {{8, 1}}, .out = {{8, 1}}});
  const Plan plan = plan_network(forward_of(net, body), inputs, adam(0.01), {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "block.dense2.matmul").in, (Parts{{1, 4}, {4, 2}}));
  EXPECT_EQ(planned_operator(plan, "region.in0").in, (Parts{{8, 1}}));
}

TEST(Shard, takes_functions_of_several_values_and_results) {
  const Body body = [](const Net& net, Traced x) {
    const auto cross = [&](Traced a, Traced b) {
      return std::vector<Traced>{add("a")(a, b), multiply("m")(a, b)};
    };
    const auto sharded = shard(cross, {.in = {{8, 1}, {}}, .out = {{}, {1, 8}}, .name = "cross"});
    const std::vector<Traced> both = sharded(x, relu("r")(x));
    return net.head(net.block(add("sum")(both[0], both[1])));
  };
  const Plan plan = planned(body, {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "cross.in0").in, (Parts{{8, 1}}));
  EXPECT_EQ(planned_operator(plan, "cross.out1").in, (Parts{{1, 8}}));
  EXPECT_THROW(planned_operator(plan, "cross.in1"), Error);
  EXPECT_THROW(planned_operator(plan, "cross.out0"), Error);
  const std::vector<double> one = losses(body, {}), eight = losses(body, {.devices = 8});
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], eight[i], 1e-5);
}

TEST(Shard, a_module_given_by_name_stays_the_same_object) {
  const Body twice = [](const Net& net, Traced x) {
    return net.head(net.block(shard(net.block, {.in = {{8, 1}}})(x)));
  };
  EXPECT_EQ(refusal(twice), "no error");
}

TEST(Shard, regions_nest_and_each_keeps_its_edges) {
  const Body body = [](const Net& net, Traced x) {
    const auto inner =
        shard(net.block, {.in = {{1, 8}}, .parameters = {{"dense1.weight", {8, 1}}}, .name = "inner"});
    const auto all = [&](Traced v) { return net.head(inner(v)); };
    const auto outer =
        shard(all, {.in = {{8, 1}}, .parameters = {{"dense1.weight", {8, 1}}}, .name = "outer"});
    return outer(x);
  };
  const Plan plan = planned(body, {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "outer.in0").in, (Parts{{8, 1}}));
  EXPECT_EQ(planned_operator(plan, "inner.in0").in, (Parts{{1, 8}}));
  expect_losses_of_one_device(body, {.devices = 8});
}

TEST(Shard, a_parameter_has_one_layout) {
  EXPECT_EQ(
      refusal([](const Net& net, Traced x) {
        const auto inner = shard(net.block, {.parameters = {{"dense1.weight", {8, 1}}}, .name = "inner"});
        return net.head(shard(inner, {.parameters = {{"dense1.weight", {1, 8}}}, .name = "outer"})(x));
      }),
      "outer: parameter block.dense1.weight should lie (1, 8) but it lies (8, 1) by another shard; it has "
      "one layout");
}

TEST(Shard, refuses_what_does_not_exist_or_does_not_fit) {
  EXPECT_EQ(refusal(with({.parameters = {{"dense1.wieght", {1, 8}}}})),
            "region: it uses no parameter 'dense1.wieght' (did you mean dense1.weight or dense2.weight?)");
  EXPECT_EQ(
      refusal(with({.parameters = {{"weight", {1, 8}}}})),
      "region: parameter 'weight' can be block.dense1.weight or block.dense2.weight; write more of the name");
  EXPECT_EQ(refusal(with({.parameters = {{"head.weight", {1, 8}}}})),
            "region: it uses no parameter 'head.weight'");
  EXPECT_EQ(refusal(with({.in = {{8, 1}, {8, 1}}})),
            "region: has 1 input but .in has 2; {} stands for one that is free");
  EXPECT_EQ(refusal(with({.in = {{8}}})), "region: input 0 has 2 dims but its layout (8,) has 1");
  EXPECT_EQ(refusal(with({.out = {{8, 1, 1}}})),
            "region: result 0 has 2 dims but its layout (8, 1, 1) has 3");
  EXPECT_EQ(refusal(with({.parameters = {{"dense1.bias", {8, 1}}}})),
            "region: parameter block.dense1.bias has 1 dims but its layout (8, 1) has 2");
  EXPECT_EQ(refusal(with({.in = {{1, 16}}})),
            "region.in0: dim 1 of input 0 has size 24 and cannot be split evenly into 16");
  EXPECT_EQ(refusal(with({.parameters = {{"dense1.weight", {16, 1}}}})),
            "block.dense1.weight: dim 0 of the parameter has size 24 and cannot be split evenly into 16");
  EXPECT_EQ(refusal(with({.in = {{16, 1}}})),
            "region.in0: strategy ((16, 1),) needs 16 devices but there are 8");
}

TEST(Shard, random_layouts_are_kept_and_keep_the_losses) {
  const DeviceLayout layout({2, 2, 2}, {"a", "b", "c"});
  const Mesh mesh = testing::mesh_of("mesh [a=2, b=2, c=2]");
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    std::map<std::string, std::string> want;
    const auto random = [&](const std::string& name) {
      const Layout l = draw.layout(mesh, 2, {.sum = false, .uneven = false});
      want[name] = to_text(l, mesh);
      TensorSplit split;
      split.is_by_axes = true;
      for (const Axes& axes : l.dims) {
        auto& names = split.axes.emplace_back();
        for (int a : axes) names.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
      }
      return Split(layout.mesh(), split);
    };
    const Body body =
        with({.in = {random("in")},
              .out = {random("out")},
              .parameters = {{"dense1.weight", random("w1")}, {"dense2.weight", random("w2")}}});
    const TrainOptions options{.devices = 8,
                               .settings = {.optimizer_parallel = {static_cast<int>(seed % 3), 0}}};
    const PlannedNetwork network = planned(body, options);
    EXPECT_EQ(lowered_layout(network, "region.in0"), want["in"]);
    EXPECT_EQ(lowered_layout(network, "region.out0"), want["out"]);
    EXPECT_EQ(network.plan.stages[0].layouts.at("block.dense1.weight"), want["w1"]);
    EXPECT_EQ(network.plan.stages[0].layouts.at("block.dense2.weight"), want["w2"]);
    expect_losses_of_one_device(body, options);
  }
}

TEST(Reshard, is_one_value_in_one_layout) {
  const Body body = [](const Net& net, Traced x) {
    return net.head(reshard(reshard(net.block(x), {1, 8}), {8, 1}, "rows"));
  };
  const Plan plan = planned(body, {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "block.dense2.add.reshard").in, (Parts{{1, 8}}));
  EXPECT_EQ(planned_operator(plan, "rows").in, (Parts{{8, 1}}));
  expect_losses_of_one_device(body, {.devices = 8});
  EXPECT_EQ(refusal([](const Net& net, Traced x) { return net.head(net.block(reshard(x, {}))); }),
            "x.reshard: reshard needs a layout");
}

// ---- who decides: plan file, annotation file, code, search ----

TEST(Precedence, code_beats_the_search) {
  EXPECT_EQ(
      planned_operator(planned(plain, {.devices = 8, .search = "propagation"}).plan, "block.dense1.matmul")
          .in,
      (Parts{{1, 1}, {1, 1}}));
  const Plan plan = planned(with({.in = {{1, 8}}}), {.devices = 8}).plan;
  EXPECT_EQ(planned_operator(plan, "region.in0").in, (Parts{{1, 8}}));
  EXPECT_EQ(plan.stages[0].layouts.at("x"), "[-, x0]");
}

TEST(Precedence, an_annotation_file_beats_code_where_it_speaks) {
  const std::string file = scratch_folder() + "/a.json";
  const Body body = with({.in = {{1, 8}}, .out = {{8, 1}}, .parameters = {{"dense1.weight", {8, 1}}}});
  write_bytes(file, R"({"region.in0": {"in": [[4, 2]]},
      "block.dense1.weight": {"out": [[2, 4]]}, "block.relu1": {"in": [[2, 4]]}})");
  const TrainOptions options{.devices = 8, .annotation_file = file};
  const Plan plan = planned(body, options).plan;
  EXPECT_EQ(planned_operator(plan, "region.in0").in, (Parts{{4, 2}}));
  EXPECT_EQ(planned_operator(plan, "region.out0").in, (Parts{{8, 1}}));  // of which the file says nothing
  EXPECT_EQ(planned_operator(plan, "block.relu1").in, (Parts{{2, 4}}));
  EXPECT_EQ(plan.stages[0].layouts.at("block.dense1.weight"), "[x0, x1.x2]");
  expect_losses_of_one_device(body, options);
}

TEST(Precedence, a_plan_file_beats_all) {
  const std::string path = scratch_folder() + "/plan.json";
  const Plan saved =
      planned(with({.in = {{4, 2}}, .parameters = {{"dense1.weight", {1, 4}}}}), {.devices = 8}).plan;
  save_plan(saved, path);
  const Body other = with({.in = {{1, 8}}, .parameters = {{"dense1.weight", {8, 1}}}});
  const TrainOptions options{.devices = 8, .search = "no such search", .plan_file = path};
  const Plan plan = planned(other, options).plan;
  EXPECT_EQ(plan.stages[0].operators, saved.stages[0].operators);
  EXPECT_EQ(plan.stages[0].layouts, saved.stages[0].layouts);
  expect_losses_of_one_device(other, options);
}

TEST(Precedence, a_plan_file_leaves_nothing_to_ask_for) {
  const std::string path = scratch_folder() + "/plan.json";
  save_plan(planned(plain, {.devices = 8}).plan, path);
  EXPECT_EQ(error_of([&] { planned(plain, {.devices = 4, .plan_file = path}); }),
            "plan_file " + path + ": the plan is for 8 devices but there are 4");
  EXPECT_EQ(
      error_of([&] { planned(plain, {.devices = 8, .plan_file = path, .dataset_strategy = "full_batch"}); }),
      "plan_file " + path + ": the plan has decided how operators and data are split; leave out the others");
  const std::string of_stages =
      "plan_file " + path + ": the plan has decided settings and stages; leave out both";
  EXPECT_EQ(error_of([&] {
              planned(plain,
                      {.devices = 8, .plan_file = path, .settings = {.pipelining = {.micro_batches = 2}}});
            }),
            of_stages);
  EXPECT_EQ(error_of([&] {
              planned(plain, {.devices = 8, .plan_file = path, .stages = {{"region", 0}}});
            }),
            of_stages);
}

TEST(Precedence, there_are_stages_and_micro_batches) {
  EXPECT_EQ(
      error_of([&] { planned(plain, {.devices = 8, .settings = {.pipelining = {.micro_batches = 0}}}); }),
      "pipelining: 0 micro-batches but there should be from 1 to 65536");
  EXPECT_EQ(error_of([&] { planned(plain, {.devices = 8, .settings = {.pipelining = {.stages = -1}}}); }),
            "pipelining: -1 stages but there should be from 1 to 1048576");
}

}  // namespace
}  // namespace shardwright
