// Held-out data and what else asks a network: every door plans the same network alike.
#include "shardwright/frontend/evaluation.h"

#include <gtest/gtest.h>

#include "shardwright/base/text.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/predict.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// Each operator, with its stage and how it is split.
std::vector<std::string> splits_of(const Plan& plan) {
  std::vector<std::string> out;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators) {
      out.push_back(fmt::format("{} {}", s, op.name));
      for (const auto& [loop, axes] : op.strategy) out.back() += fmt::format(" {}:{}", loop, join(axes, "."));
    }
  return out;
}

TEST(Inference, is_planned_alike_by_every_door) {
  const Model model = build_model("ffn:batch=64,widths=256-128-10");
  const std::string data = scratch_folder() + "/data.safetensors";
  write_safetensors(data, {{"input", Tensor({DType::f32, {64, 256}})}});
  const AskedNetwork command =
      asked_network(model, data, {.devices = 4}, {.device = default_devices()});  // infer, train --eval

  const Dense dense1{"dense1", 256, 128}, dense2{"dense2", 128, 10};
  const Operator relu1 = relu("relu1");
  const PredictStep code(
      [&](const std::vector<Traced>& in) { return std::vector{dense2(relu1(dense1(in[0])))}; },
      {{"input", {DType::f32, {64, 256}}}}, {.devices = 4});
  EXPECT_EQ(splits_of(command.plan), splits_of(code.plan()));
  EXPECT_EQ(command.plan.settings, code.plan().settings);
  EXPECT_EQ(command.plan.search, "auto");
  EXPECT_EQ(code.plan().search, "auto");

  const Plan python = make_plan(inference_of(model, false).graph, {.devices = 4});  // as predict_step asks
  EXPECT_EQ(splits_of(command.plan), splits_of(python));
}

TEST(Inference, in_stages_says_the_same) {
  const Model model = build_model("ffn:batch=8,widths=6-5-3");
  const std::string data = scratch_folder() + "/data.safetensors";
  Tensor input({DType::f32, {16, 6}}), label({DType::i32, {16}});
  for (std::size_t i = 0; i < 96; ++i) input.as<float>()[i] = static_cast<float>(i % 11) / 11;
  write_safetensors(data, {{"input", input}, {"label", label}});
  const auto asked = [&](PlanRequest request) {
    const AskedNetwork network =
        asked_network(model, data, std::move(request), {.device = default_devices()});
    Session session = start_threads(network.program, {.seed = 3});
    return std::pair(network.plan.stages.size(), ask(session, *network.data, ask_options_of(network)));
  };
  const auto [one, alone] = asked({.parallel = Parallel::stand_alone});
  const auto [two, staged] =
      asked({.devices = 4, .constraints = constraints_of({.pipelining = {.stages = 2}})});
  EXPECT_EQ(one, 1);
  EXPECT_EQ(two, 2);
  EXPECT_NEAR(staged.loss, alone.loss, 1e-6);
  ASSERT_TRUE(staged.accuracy);
  EXPECT_EQ(staged.accuracy, alone.accuracy);
}

TEST(Inference, of_held_out_data_is_proven_and_refused_where_it_does_not_fit) {
  const Model model = build_model("ffn:batch=8,widths=6-5-3");
  const std::string data = scratch_folder() + "/data.safetensors";
  write_safetensors(data, {{"input", Tensor({DType::f32, {8, 6}})}});
  int looked_at = 0;
  asked_network(model, data, {.devices = 2}, {.device = default_devices(), .accept = [&](const Pipeline& p) {
                                                looked_at += p.rank_count();
                                              }});
  EXPECT_EQ(looked_at, 2);
  EXPECT_EQ(error_of([&] {
              asked_network(
                  model, data, {.devices = 2},
                  {.device = default_devices(), .accept = [](const Pipeline&) { throw error("too much"); }});
            }),
            "too much");
}

}  // namespace
}  // namespace shardwright
