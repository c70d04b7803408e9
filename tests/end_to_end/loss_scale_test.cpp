// Loss scaling: with a scale that is a power of two, f32 trains to the same bits as without; a step in which anything
// overflows, on whatever rank and stage, is as if it had not been.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/verify/verify.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

constexpr std::int64_t batch_size = 8;
const std::string network = "ffn:widths=6-8-8-4,batch=8";

struct Case {
  std::string name;
  int devices = 1;
  Parallel parallel = Parallel::auto_parallel;
  Constraints constraints = {};
  std::string optimizer = "adamw";
  double clip_norm = 0;
  bool reduces_short = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

OptimizerChoice optimizer_of(const Case& c, const LossScale& scale) {
  OptimizerChoice out{.name = c.optimizer, .attributes = {{"rate", 0.05}}, .clip_norm = c.clip_norm};
  out.loss_scale = scale;
  out.reduces_short = c.reduces_short;
  return out;
}

Session session_of(const Case& c, const LossScale& scale, const Precision& precision) {
  Model model = build_model(network, {.precision = precision,
                                      .micro_batches = settings_of(c.constraints).pipelining.micro_batches});
  add_train_step(model.graph, model.loss, optimizer_of(c, scale));
  const Plan plan = make_plan(model.graph, {.model = network,
                                            .devices = c.devices,
                                            .parallel = c.devices == 1 ? Parallel::stand_alone : c.parallel,
                                            .search = "recursive",
                                            .constraints = c.constraints});
  Pipeline program = compile_pipeline(model.graph, plan);
  prove(program);
  return Session(std::move(program), {.seed = 3});
}

using Batch = std::map<std::string, Tensor>;

Batch batch_of(std::uint64_t step, const Precision& precision) {
  const Sample sample{
      {{{precision.compute, {batch_size, 6}}}, {{DType::i32, {batch_size}}, Domain::below, 4}}, {}};
  const std::vector<Tensor> drawn = draw(sample, Values::reals, 100 + step);
  return {{"input", drawn[0]}, {"label", drawn[1]}};
}

/// One sample of the last micro-batch is beyond all numbers.
Batch overflowing_batch(std::uint64_t step) {
  Batch out = batch_of(step, DType::f32);
  out.at("input").as<float>().back() = std::numeric_limits<float>::infinity();
  return out;
}

const std::vector<std::string> parameters{"dense1.weight", "dense1.bias",   "dense2.weight",
                                          "dense2.bias",   "dense3.weight", "dense3.bias"};

std::vector<Tensor> parameters_of(const Session& session) {
  std::vector<Tensor> out;
  for (const std::string& name : parameters) out.push_back(session.get(name));
  return out;
}

double number(const Session& session, std::string_view name) { return to_doubles(session.get(name)).front(); }

class LossScaling : public testing::TestWithParam<Case> {};

TEST_P(LossScaling, of_a_power_of_two_changes_no_bit) {
  Session plain = session_of(GetParam(), {}, DType::f32);
  Session scaled = session_of(GetParam(), dynamic_loss_scale(), DType::f32);
  for (std::uint64_t step = 0; step < 4; ++step)
    EXPECT_EQ(plain.step(batch_of(step, DType::f32)), scaled.step(batch_of(step, DType::f32)));
  if (GetParam().clip_norm == 0) {  // its 1e-6 is of the gradients as they are
    EXPECT_EQ(parameters_of(plain), parameters_of(scaled));
  }
  EXPECT_EQ(number(scaled, good_steps_state), 4);
}

TEST_P(LossScaling, takes_no_step_that_overflows) {
  const LossScale scale{.initial = 1024, .interval = 3};
  Session spared = session_of(GetParam(), scale, DType::f32), hit = session_of(GetParam(), scale, DType::f32);
  for (std::uint64_t step = 0; step < 6; ++step) {
    if (step == 2) {
      const std::vector<Tensor> before = parameters_of(hit);
      hit.step(overflowing_batch(step));
      EXPECT_EQ(parameters_of(hit), before);
      EXPECT_EQ(number(hit, loss_scale_state), 512);
      EXPECT_EQ(number(hit, good_steps_state), 0);
      continue;
    }
    spared.step(batch_of(step, DType::f32));
    hit.step(batch_of(step, DType::f32));
  }
  EXPECT_EQ(parameters_of(hit), parameters_of(spared));
  EXPECT_EQ(number(spared, loss_scale_state), 2048);  // three good steps, and two
  EXPECT_EQ(number(spared, good_steps_state), 2);
  EXPECT_EQ(number(hit, loss_scale_state), 1024);  // 512 and three good steps
  if (GetParam().optimizer == "adamw") {
    EXPECT_EQ(number(hit, "optimizer.step"), 5);
  }
}

/// Gradients of halves times 2^26 overflow; the scale comes down until they do not.
TEST_P(LossScaling, finds_a_scale_for_fp16) {
  const Precision fp16 = Precision::mixed(DType::f16);
  Session session = session_of(GetParam(), {.initial = std::exp2(26), .interval = 2000}, fp16);
  const std::vector<Tensor> before = parameters_of(session);
  std::vector<double> losses;
  int skipped = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    losses.push_back(to_doubles(session.step(batch_of(0, fp16)).front()).front());
    if (number(session, good_steps_state) == 0) ++skipped;
    if (skipped == static_cast<int>(step) + 1) {
      EXPECT_EQ(parameters_of(session), before);
    }
  }
  EXPECT_GE(skipped, 5);
  EXPECT_LE(skipped, 14);
  EXPECT_EQ(number(session, loss_scale_state), std::exp2(26 - skipped));
  EXPECT_LT(losses.back(), losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    Plans, LossScaling,
    testing::Values(
        Case{.name = "one_device"}, Case{.name = "momentum", .optimizer = "momentum"},
        Case{.name = "clipped", .clip_norm = 0.5},
        Case{.name = "sgd_on_4", .devices = 4, .parallel = Parallel::data_parallel, .optimizer = "sgd"},
        Case{.name = "searched_on_4", .devices = 4},
        Case{.name = "micro_batches", .constraints = constraints_of({.pipelining = {.micro_batches = 4}})},
        Case{.name = "stages",
             .devices = 2,
             .constraints = constraints_of({.pipelining = {.stages = 2, .micro_batches = 4}})},
        Case{.name = "stages_clipped",
             .devices = 4,
             .constraints = constraints_of({.pipelining = {.stages = 2, .micro_batches = 2}}),
             .clip_norm = 0.5},
        Case{.name = "stages_of_copies_clipped",
             .devices = 4,
             .parallel = Parallel::data_parallel,
             .constraints = constraints_of({.pipelining = {.stages = 2, .micro_batches = 2}}),
             .clip_norm = 0.5},
        Case{.name = "short_and_clipped",
             .devices = 4,
             .constraints = constraints_of({.pipelining = {.stages = 4, .micro_batches = 2}}),
             .clip_norm = 0.5,
             .reduces_short = true},
        Case{.name = "level_1",
             .devices = 4,
             .parallel = Parallel::data_parallel,
             .constraints = constraints_of({.optimizer_parallel = {.level = 1, .threshold = 0}})},
        Case{.name = "level_3_of_2_stages",
             .devices = 4,
             .parallel = Parallel::data_parallel,
             .constraints = constraints_of({.optimizer_parallel = {.level = 3, .threshold = 0},
                                            .pipelining = {.stages = 2, .micro_batches = 2}})}),
    [](const auto& each) { return each.param.name; });

TEST(LossScale, is_read_as_it_is_written) {
  for (const char* text : {"none", "dynamic", "1024", "0.5"})
    EXPECT_EQ(to_text(parse_loss_scale(text).value()), text);
  const LossScale other{.initial = 8, .interval = 10, .factor = 4};
  EXPECT_EQ(to_text(other), "8 by 4 every 10");
  EXPECT_EQ(parse_loss_scale(to_text(other)), other);
  for (const char* text :
       {"0", "-1", "nan", "inf", "1e300", "Dynamic", "", "8 by 1 every 2", "8 by 2 every 0", "8 by 2"})
    EXPECT_FALSE(parse_loss_scale(text)) << text;
}

}  // namespace
}  // namespace shardwright
