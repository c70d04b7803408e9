#include "shardwright/autodiff/train_step.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

const char* const network = R"(
%x = input f32[4, 3]
%w1 = param f32[3, 2]
%w2 = param f32[2, 2]
%y = matmul %x, %w1
%z = matmul %y, %w2
%loss = reduce_mean %z
output %z
output %loss
)";

Graph stepped(std::string_view text, const OptimizerChoice& choice) {
  Graph g = parse_graph(text);
  add_train_step(g, g.find("loss"), choice);
  return g;
}

std::vector<std::string> updated(const Graph& g) {
  std::vector<std::string> out;
  for (const Update& u : g.updates) out.push_back(g.value(u.leaf).name);
  return out;
}

using Names = std::vector<std::string>;

TEST(TrainStep, updates_every_parameter_and_its_states) {
  const Attributes rate{{"rate", 0.1}};
  EXPECT_EQ(updated(stepped(network, {"sgd", rate})), (Names{"w1", "w2"}));
  EXPECT_EQ(updated(stepped(network, {"momentum", rate})), (Names{"w1", "w1.momentum", "w2", "w2.momentum"}));
  EXPECT_EQ(updated(stepped(network, {"adam", rate})),
            (Names{"optimizer.step", "w1", "w1.moment1", "w1.moment2", "w2", "w2.moment1", "w2.moment2"}));
}

TEST(TrainStep, parameters_have_settings_of_their_own) {
  std::string text = network;
  text.replace(text.find("%w2 = param f32[2, 2]"), 21,
               "%w2 = param f32[2, 2] (own_rate=0.5, own_weight_decay=0, rate_group=2)");
  OptimizerChoice choice{"adamw", {{"rate", 0.1}, {"weight_decay", 0.3}}};
  const auto setting = [](const Graph& g, const char* of, const char* name) {
    return g.node(g.value(g.find(of)).producer).attributes.number(name, -1);
  };
  const Graph fixed = stepped(text, choice);
  EXPECT_EQ(setting(fixed, "w1.new", "weight_decay"), 0.3);
  EXPECT_EQ(setting(fixed, "w2.new", "weight_decay"), 0);
  EXPECT_EQ(setting(fixed, "w1.new", "rate"), 0.1);
  EXPECT_EQ(setting(fixed, "w2.new", "rate"), 0.5);
  choice.has_set_rate = true;
  const Graph set = stepped(text, choice);
  EXPECT_EQ(setting(set, "optimizer.rate", "value"), 0.1);
  EXPECT_EQ(setting(set, "optimizer.rate.2", "value"), 0.5);
  EXPECT_EQ(setting(set, "w2.new", "rate"), -1);
  try {
    stepped(text, {"sgd", {{"rate", 0.1}}});
    stepped("%w = param f32[2] (own_beta1=0.5)\n%loss = reduce_mean %w\noutput %loss\n",
            {"sgd", {{"rate", 0.1}}});
    FAIL() << "it took a setting that sgd has not";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "parameter 'w' has a beta1 of its own, which is no setting of sgd");
  }
}

/// Rows of the batch alone cannot be updated where all decay: the table's own decay counts, not the others'.
TEST(TrainStep, a_table_whose_own_weights_decay_is_updated_whole) {
  const auto update_of = [](double own, double of_others) {
    const std::string text = fmt::format(
        "%w = param f32[8, 2] (own_weight_decay={}, sparse=true)\n%i = input i32[3]\n%rows = gather %w, %i\n"
        "%loss = reduce_mean %rows\noutput %loss\n",
        own);
    const Graph g = stepped(text, {"sgd", {{"rate", 0.1}, {"weight_decay", of_others}}});
    const Node& node = g.node(g.value(g.find("w.new")).producer);
    return fmt::format("{} {}", node.op->name, node.attributes.number("weight_decay", 0));
  };
  EXPECT_EQ(update_of(0, 0.3), "sgd_rows 0");
  EXPECT_EQ(update_of(0.3, 0), "sgd 0.3");
}

TEST(TrainStep, is_a_sound_graph_whose_first_output_is_the_loss) {
  for (const char* name : {"sgd", "momentum", "adam", "adamw"}) {
    const Graph g = stepped(network, {name, {{"rate", 0.1}}});
    EXPECT_NO_THROW(verify(g));
    ASSERT_EQ(g.outputs.size(), 2);
    EXPECT_EQ(g.value(g.outputs[0]).name, "loss");
    EXPECT_EQ(g.value(g.outputs[1]).name, "z");
    for (const Update& u : g.updates) {
      EXPECT_EQ(g.node(g.value(u.value).producer).phase, Phase::update);
      EXPECT_EQ(g.value(u.leaf).type, g.value(u.value).type);
    }
  }
}

TEST(TrainStep, leaves_alone_what_the_loss_does_not_see) {
  const std::string text = fmt::format("{}%unseen = param f32[2]\n", network);
  EXPECT_EQ(updated(stepped(text, {})), (Names{"w1", "w2"}));
}

TEST(TrainStep, names_what_is_wrong) {
  const auto error = [](std::string_view text, const char* optimizer) {
    return error_of([&] { stepped(text, {optimizer, {{"rate", 0.1}}}); });
  };
  EXPECT_EQ(error(network, "sdg"),
            "optimizer 'sdg' does not exist; there are sgd, momentum, adagrad, lazy_adam, adam, adamw");
  EXPECT_EQ(error("%x = input f32[3]\n%loss = reduce_mean %x", "sgd"),
            "the loss %loss depends on no parameter");
}

}  // namespace
}  // namespace shardwright
