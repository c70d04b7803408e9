#include "shardwright/training/state_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/training/spikes.h"
#include "tests/support/message_of.h"

namespace shardwright {
namespace {

using testing::message_of;

/// Four replicas of a small network.
struct Replicated {
  Model model = build_model("ffn:batch=8,widths=6-5-3");
  std::optional<Session> session;

  Replicated() {
    add_train_step(model.graph, model.loss, {.name = "sgd", .attributes = {{"rate", 0.1}}});
    const Plan plan = make_plan(model.graph, {.devices = 4, .parallel = Parallel::data_parallel});
    session.emplace(compile_pipeline(model.graph, plan, {.formats = default_devices().formats}),
                    SessionOptions{.seed = 1});
  }
  std::vector<Tensor> step() {
    return session->step({{"input", make_tensor({DType::f32, {8, 6}}, std::vector<double>(48, 0.5))},
                          {"label", make_tensor({DType::i32, {8}}, std::vector<double>(8, 1))}});
  }
  /// A bit of what the rank holds of a parameter, as a particle from the sky does.
  void flip(int rank, const std::string& name) {
    const Tensor value = session->get(name);
    const std::span<std::byte> memory = session->memory()[static_cast<std::size_t>(rank)];
    const auto at = std::ranges::search(memory, value.bytes());
    ASSERT_FALSE(at.empty());
    at.front() ^= std::byte{1};
  }
};

TEST(StateChecks, a_copy_that_has_come_apart_is_named_with_its_ranks) {
  Replicated run;
  const TrainingOptions options{.check_replicas = 2};
  StateChecks checks(*run.session, options, 0);
  EXPECT_FALSE(checks.looks_at(0));
  EXPECT_TRUE(checks.looks_at(1));
  run.step();
  EXPECT_GE(checks.look(1).values, 4);
  run.flip(2, "dense2.weight");
  EXPECT_EQ(message_of([&] { checks.look(3); }),
            "behind step 3, 'dense2.weight' differs on rank 2 from ranks 0, 1, 3; --deterministic-check "
            "tells whether a "
            "machine or the program does this");
  run.flip(2, "dense1.weight");
  const std::string two = message_of([&] { checks.look(3); });
  EXPECT_NE(
      two.find("'dense1.weight' differs on rank 2 from ranks 0, 1, 3, and so do copies of 1 more value;"),
      two.npos)
      << two;
  try {
    checks.look(5);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::timeout);  // the status of a lost rank
  }
}

TEST(StateChecks, a_step_that_gives_the_same_twice_changes_nothing_else) {
  Replicated once, twice;
  const TrainingOptions options{.deterministic_check = true};
  StateChecks checks(*twice.session, options, 3);
  EXPECT_TRUE(checks.looks_at(3));
  EXPECT_FALSE(checks.looks_at(4));
  once.step();
  const auto told = checks.twice(3, [&] { return twice.step(); });
  EXPECT_FALSE(told.empty());
  EXPECT_EQ(once.session->checksums(), twice.session->checksums());
}

TEST(StateChecks, a_machine_that_computes_otherwise_the_second_time_is_named) {
  Replicated run;
  const TrainingOptions options{.deterministic_check = true};
  StateChecks checks(*run.session, options, 0);
  int times = 0;
  const std::string why = message_of([&] {
    checks.twice(7, [&] {
      auto out = run.step();
      if (++times == 2) run.flip(1, "dense2.bias");
      return out;
    });
  });
  EXPECT_TRUE(why.starts_with("rank 1 on ")) << why;
  EXPECT_NE(why.find(": two runs of step 7 from the same state differ, so its machine computes wrongly"),
            why.npos)
      << why;
  EXPECT_TRUE(why.ends_with("in 'dense2.bias'")) << why;
}

TEST(StateChecks, a_snapshot_brings_back_what_was) {
  Replicated run;
  run.step();
  const auto sums = run.session->checksums();
  const Session::Snapshot before = run.session->snapshot();
  run.step();
  EXPECT_NE(run.session->checksums(), sums);
  run.session->restore(before);
  EXPECT_EQ(run.session->checksums(), sums);
}

TEST(Spikes, are_told_where_they_begin) {
  SpikeWatch watch;
  for (double loss : {9.0, 2.0, 2.1, 1.9, 100.0}) EXPECT_FALSE(watch.look(loss)) << loss;  // too few before
  EXPECT_EQ(watch.look(21.1), 2.1);
  EXPECT_FALSE(watch.look(200.0));  // of the same spike
  EXPECT_FALSE(watch.look(2.0));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(watch.look(2.0));
  EXPECT_FALSE(watch.look(20.0));  // not more than ten times
  EXPECT_TRUE(watch.look(20.1));
  EXPECT_FALSE(watch.look(std::nan("")));
}

TEST(Spikes, losses_below_zero_have_none) {
  SpikeWatch watch;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(watch.look(-1.0 - i));
  EXPECT_FALSE(watch.look(50));
}

}  // namespace
}  // namespace shardwright
