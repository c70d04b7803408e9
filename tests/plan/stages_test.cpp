#include "shardwright/plan/stages.h"
#include "shardwright/base/index.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/search/planning/stage_cut.h"

namespace shardwright {
namespace {

Model train_model(const std::string& spec, const OptimizerChoice& optimizer = {}) {
  Model model = build_model(spec);
  add_train_step(model.graph, model.loss, optimizer);
  return model;
}

std::vector<int> stages_by_name(const Graph& graph, const std::map<std::string, int>& asked, int stages) {
  return asked_stages(graph, asked, stages);
}

TEST(Stages, each_is_a_graph_of_its_own) {
  const Model model = train_model("matmul_chain:widths=8-8-8,batch=4");
  const StagedGraph parts =
      cut_into_stages(model.graph, stages_by_name(model.graph, {{"matmul1", 0}, {"matmul2", 1}}, 2), 2, 2);
  ASSERT_EQ(parts.stages.size(), 2);
  for (const Graph& g : parts.stages) verify(g);
  EXPECT_EQ(to_text(parts.stages[0]), R"(%input = input f32[4, 8]
%w1 = param f32[8, 8] (init=normal, scale=0.1)
%matmul1 = matmul %input, %w1 : f32[4, 8]
backward:
%4 = receive f32[4, 8] grad %matmul1
%6 = matmul %4, %w1 (transpose_b=true) of %matmul1 : f32[4, 8]
%7 = matmul %input, %4 (transpose_a=true) of %matmul1 : f32[8, 8] grad %w1
%w1.accumulator = accumulator f32[8, 8] grad %w1
%w1.accumulated = sum %w1.accumulator, %7 : f32[8, 8] grad %w1
update:
%w1.new = sgd %w1, %w1.accumulated (rate=0.01) : f32[8, 8]
send %matmul1
update %w1 <- %w1.new
update %w1.accumulator <- %w1.accumulated
)");
  ASSERT_EQ(parts.crossings.size(), 2);
  EXPECT_EQ(parts.crossings[0], (Crossing{0, 1, 0, "matmul1"}));
  EXPECT_EQ(parts.crossings[1], (Crossing{1, 0, 0, "4"}));
  ASSERT_EQ(parts.outputs.size(), 2);
  EXPECT_EQ(parts.outputs[0].stage, 1);
}

/// The weight lives where it is first read; its gradient is accumulated where it is made and crosses once.
TEST(Stages, a_tied_weight_crosses_once_a_step_and_its_gradient_back) {
  const Model model = train_model("gpt:layers=2,hidden=8,heads=2,vocab=12,seq=4,batch=2");
  const auto parts =
      cut_into_stages(model.graph, stages_by_name(model.graph, {{"layers.0", 0}, {"layers.1", 1}}, 2), 2, 2);
  int of_weight = 0, gradients = 0;
  for (const Crossing& c : parts.crossings) {
    const Graph& to = parts.stages[static_cast<std::size_t>(c.to)];
    const Value& received = to.value(to.find(c.receive));
    if (received.type.shape != Shape{12, 8}) continue;
    const Node& node = to.node(received.producer);
    if (node.attributes.integer("once", 0) == 1)
      ++of_weight;
    else
      gradients += node.phase == Phase::update ? 1 : 100;
  }
  EXPECT_EQ(of_weight, 1);
  EXPECT_EQ(gradients, 1);
}

/// The norm of all gradients takes one scalar of each stage, however many parameters it has, and one goes back to each.
TEST(Stages, send_one_sum_of_their_squares) {
  for (const OptimizerChoice& optimizer : {OptimizerChoice{.name = "adamw", .clip_norm = 1},
                                           {.name = "sgd", .loss_scale = dynamic_loss_scale()}}) {
    const Model model = train_model("gpt:layers=3,hidden=8,heads=2,vocab=12,seq=4,batch=2,tied=0", optimizer);
    const auto parts = cut_into_stages(
        model.graph, stages_by_name(model.graph, {{"layers.0", 0}, {"layers.1", 1}, {"layers.2", 2}}, 3), 3,
        2);
    std::map<std::pair<int, int>, int> scalars;  // of the update, by where they go
    for (const Crossing& c : parts.crossings) {
      const Graph& to = parts.stages[at(c.to)];
      const Value& received = to.value(to.find(c.receive));
      if (to.node(received.producer).phase == Phase::update && received.type.shape.empty())
        ++scalars[{c.from, c.to}];
    }
    EXPECT_EQ((scalars[{1, 0}]), 1);
    EXPECT_LE((scalars[{2, 0}]), 2);  // the stage of the loss has its scale
    EXPECT_LE((scalars[{0, 1}]), 3);  // the factor, whether gradients are finite, the count of steps
    EXPECT_LE((scalars[{0, 2}]), 3);
    for (const Graph& stage : parts.stages) verify(stage);
  }
}

TEST(Stages, every_stage_counts_its_own_steps_and_reads_its_own_inputs) {
  const Model model = train_model("ffn:widths=8-8-8-8,batch=4", {"adam", {{"rate", 0.1}}});
  const auto parts = cut_into_stages(
      model.graph, stages_by_name(model.graph, {{"dense1", 0}, {"dense2", 1}, {"dense3", 2}}, 3), 3, 1);
  for (const Graph& g : parts.stages) EXPECT_NO_THROW(g.find("optimizer.step"));
  EXPECT_NO_THROW(parts.stages[2].find("label"));
  EXPECT_THROW(parts.stages[0].find("label"), Error);
  for (const Crossing& c : parts.crossings) EXPECT_NE(c.receive, "optimizer.step");
}

std::string why_not_cut(const Graph& graph, const std::map<std::string, int>& asked, int micro_batches) {
  try {
    cut_into_stages(graph, stages_by_name(graph, asked, 2), 2, micro_batches);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// %mean is a state that the forward makes, %kept one that nothing reads.
Graph network_with_states() {
  return parse_graph(R"(%x = input f32[4, 8]
%w = param f32[8, 8]
%mean = state f32[8]
%kept = state f32[4, 8]
%a = matmul %x, %w
%b = div %a, %mean
%c = tanh %b
%new = reduce_mean %c (dims=[0])
%loss = reduce_mean %c
output %loss
update %mean <- %new
update %kept <- %c
)");
}

TEST(Stages, a_state_takes_its_next_value_from_its_own_stage) {
  for (int micro_batches : {1, 2}) {
    EXPECT_EQ(why_not_cut(network_with_states(), {{"a", 0}, {"b", 1}}, micro_batches), "");
    EXPECT_EQ(
        why_not_cut(network_with_states(), {{"a", 0}, {"new", 1}, {"loss", 0}}, micro_batches),
        "state %mean is read in stage 0 but its next value %new is made in stage 1; give both one stage");
  }
}

TEST(Stages, a_state_that_nothing_reads_is_kept_where_it_is_made) {
  const Graph graph = network_with_states();
  const auto parts = cut_into_stages(graph, stages_by_name(graph, {{"a", 0}, {"b", 1}}, 2), 2, 2);
  EXPECT_THROW(parts.stages[0].find("kept"), Error);
  EXPECT_NO_THROW(parts.stages[1].find("kept"));
  EXPECT_EQ(parts.stages[1].updates.size(), 2U);
}

/// A constant that stage 0 reads is handed out, nobody reads another, an input or a counter.
TEST(Stages, the_last_has_what_no_other_needs) {
  const Graph graph = parse_graph(R"(%x = input f32[4, 8]
%unread = input f32[4]
%w = param f32[8, 8]
%v = param f32[8, 8]
%count = state f32[]
%c = fill (shape=[8], value=2.0) : f32[8]
%alone = fill (shape=[3], value=1.0) : f32[3]
%a = matmul %x, %w
%b = mul %a, %c
%d = matmul %b, %v
%loss = reduce_mean %d
%next = shift %count (value=1.0)
output %loss
output %c
output %unread
update %count <- %next
)");
  const auto parts = cut_into_stages(graph, stages_by_name(graph, {{"a", 0}, {"d", 1}}, 2), 2, 1);
  EXPECT_NO_THROW(parts.stages[0].find("c"));
  for (const char* name : {"c", "alone", "unread", "count", "next"})
    EXPECT_NO_THROW(parts.stages[1].find(name)) << name;
  for (const char* name : {"alone", "unread", "count"})
    EXPECT_THROW(parts.stages[0].find(name), Error) << name;
  EXPECT_EQ(parts.outputs.size(), 3U);
  EXPECT_EQ(parts.stages[1].updates.size(), 1U);
}

TEST(Stages, a_received_value_has_its_batch_where_the_whole_network_has_it) {
  const Graph graph = parse_graph(R"(%x = input f32[4, 12, 8]
%t = param f32[12, 8]
%time_major = transpose %x (dims=[1, 0, 2])
%table = tanh %t
%in_front = tanh %x
%a = tanh %time_major
%b = tanh %table
%c = tanh %in_front
output %a
output %b
output %c
)");
  const auto parts = cut_into_stages(
      graph,
      stages_by_name(graph, {{"time_major", 0}, {"table", 0}, {"in_front", 0}, {"a", 1}, {"b", 1}, {"c", 1}},
                     2),
      2, 1);
  EXPECT_EQ(to_text(parts.stages[1]), R"(%time_major = receive f32[12, 4, 8] (batch=[1])
%a = tanh %time_major : f32[12, 4, 8]
%table = receive f32[12, 8] (batch=[])
%b = tanh %table : f32[12, 8]
%in_front = receive f32[4, 12, 8]
%c = tanh %in_front : f32[4, 12, 8]
output %a
output %b
output %c
)");
  PlanRequest request{.model = "time major", .devices = 8};
  request.constraints.stages = {{"time_major", 0}, {"table", 0}, {"in_front", 0},
                                {"a", 1},          {"b", 1},     {"c", 1}};
  for (Parallel parallel : {Parallel::data_parallel, Parallel::semi_auto_parallel}) {
    request.parallel = parallel;
    const Plan plan = make_plan(graph, request);
    ASSERT_EQ(plan.stages.size(), 2U);
    EXPECT_EQ(plan.stages[1].layouts.at("time_major"), "[-, dp, -]");
    EXPECT_EQ(plan.stages[1].layouts.at("in_front"), "[dp, -, -]");
    if (parallel == Parallel::semi_auto_parallel) {
      EXPECT_EQ(plan.stages[1].layouts.at("table"), "[-, -]");
    }
  }
}

TEST(Stages, a_plan_puts_an_operator_into_one_stage) {
  const Graph graph = network_with_states();
  PlanRequest request{.model = "two", .devices = 2};
  request.constraints.stages = {{"a", 0}, {"b", 1}};
  Plan plan = make_plan(graph, request);
  plan.stages[1].operators.push_back(plan.stages[0].operators.front());
  plan = parse_plan(to_json(plan), "plan");
  try {
    staged(graph, plan);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "plan: a is in stage 0 and in stage 1; only constants are made in several");
  }
}

TEST(Stages, an_even_cut_shares_the_work_and_keeps_layers_whole) {
  const Model model =
      build_model("llama:layers=8,hidden=64,heads=4,kv_heads=4,ffn=128,vocab=64,seq=16,batch=4");
  const std::vector<int> stage_of =
      even_stages(model.graph, Calls(model.graph), cluster_called("cpu:4"), {.stages = 4});
  std::map<std::string, std::set<int>> of_layer;
  std::vector<int> operators(4, 0);
  int before = 0;
  for (NodeId id : model.graph.node_ids()) {
    if (model.graph.node(id).op->kind != OpKind::compute || model.graph.node(id).operands.empty()) continue;
    const int stage = stage_of[static_cast<std::size_t>(id.index)];
    EXPECT_GE(stage, before);
    before = stage;
    ++operators[static_cast<std::size_t>(stage)];
  }
  for (int n : operators) EXPECT_GT(n, static_cast<int>(model.graph.nodes.size()) / 10);
  EXPECT_THROW(even_stages(model.graph, Calls(model.graph), cluster_called("cpu:4"), {.stages = 100000}),
               Error);
}

/// Little crosses between the narrow products, all of which are at one end; nearly all work is in the wide ones.
TEST(Stages, an_even_cut_is_where_the_work_is) {
  std::string widths = "8";
  for (int i = 0; i < 20; ++i) widths += i < 12 ? "-8" : "-512";
  const Model model = train_model("matmul_chain:batch=64,widths=" + widths);
  const std::vector<int> stage_of = even_stages(model.graph, Calls(model.graph), cluster_called("cpu:2"),
                                                {.stages = 2, .micro_batches = 2});
  int wide = 0;
  for (int i = 14; i <= 20; ++i) {
    const ValueId v = model.graph.find(fmt::format("matmul{}", i));
    wide += stage_of[static_cast<std::size_t>(model.graph.value(v).producer.index)];
  }
  EXPECT_GE(wide, 3);
  EXPECT_LE(wide, 4);
}

/// The places of a long network are cut where the fewest bytes cross among those near.
TEST(Stages, an_even_cut_of_a_long_network_keeps_layers_whole) {
  const Model model = train_model("llama:layers=64,hidden=16,heads=2,ffn=32,vocab=16,seq=8,batch=4");
  const std::vector<int> stage_of =
      even_stages(model.graph, Calls(model.graph), cluster_called("cpu:4"), {.stages = 4});
  std::vector<int> operators(4, 0);
  for (NodeId id : model.graph.node_ids())
    if (const Node& node = model.graph.node(id); node.phase == Phase::forward && !node.operands.empty())
      ++operators[at(stage_of[at(id.index)])];
  for (int n : operators) EXPECT_NEAR(n, operators[1], operators[1] / 5);
}

TEST(Stages, asked_for_must_exist_and_follow_each_other) {
  const Model model = build_model("ffn:widths=8-8-8,batch=4");
  const auto why = [&](const std::map<std::string, int>& asked, int stages) {
    try {
      asked_stages(model.graph, asked, stages);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(why({{"dense1", 0}, {"dense2", 1}}, 2), "");
  EXPECT_NE(why({{"dense1", 1}, {"dense2", 0}}, 2).find("an operator cannot read from a later stage"),
            std::string::npos);
  EXPECT_NE(why({{"dense1", 0}, {"danse2", 1}}, 2).find("no such operator or module"), std::string::npos);
  EXPECT_NE(why({{"dense1", 0}, {"dense2", 2}}, 3).find("stage 1 of 3 has no operator"), std::string::npos);
}

}  // namespace
}  // namespace shardwright
