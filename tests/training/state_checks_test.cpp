#include "shardwright/training/state_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/training/spikes.h"
#include "tests/support/command_outcome.h"
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
  const auto told = checks.twice(3, false, [&] { return twice.step(); });
  EXPECT_FALSE(told.empty());
  EXPECT_EQ(once.session->checksums(), twice.session->checksums());
}

TEST(StateChecks, a_machine_that_computes_otherwise_the_second_time_is_named) {
  Replicated run;
  const TrainingOptions options{.deterministic_check = true};
  StateChecks checks(*run.session, options, 0);
  int times = 0;
  const std::string why = message_of([&] {
    checks.twice(7, false, [&] {
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

/// Of `words` of train, on a batch that has `odd` in it or learns so fast that nothing stays finite.
std::string told_of(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  words.insert(words.end(), {"--lr", "1e18", "--steps", "4", "--optimizer", "sgd", "--json"});
  const auto told = testing::outcome_of(words);
  const std::size_t at = told.err.find("the loss of step");
  const std::string line = at == told.err.npos ? told.err : told.err.substr(at, told.err.find('\n', at) - at);
  EXPECT_NE(told.out.find("{\"not_finite\":{\"step\":1,\"node\":\"%"), told.out.npos) << told.out;
  return line;
}

TEST(OddValues, the_node_that_made_the_first_is_named) {
  const std::string net = "ffn:batch=8,widths=64-64-64-10";
  const std::string one = told_of({net});
  EXPECT_TRUE(one.starts_with("the loss of step 1 is nan (null in JSON): first made by %")) << one;
  EXPECT_NE(one.find(" on rank 0; try a lower --lr"), one.npos) << one;
  // However it is split, it is the same node.
  const auto made_by = [](const std::string& line) {
    const std::size_t begin = line.find("made by ") + 8;
    return line.substr(begin, line.find(' ', begin) - begin);
  };
  EXPECT_EQ(made_by(told_of({net, "--devices", "4", "--parallel", "data_parallel"})), made_by(one));
  const std::string staged = told_of({net, "--devices", "2", "--stages", "2", "--micro-batches", "2"});
  EXPECT_NE(staged.find(", micro-batch 0;"), staged.npos) << staged;
}

TEST(OddValues, a_parameter_that_is_none_is_named) {
  Replicated run;
  std::vector<double> values(30, 0.5);
  values[7] = std::nan("");
  run.session->set("dense1.weight", make_tensor({DType::f32, {6, 5}}, values));
  run.step();
  const auto odd = run.session->odd_value();
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->text, "parameter 'dense1.weight' on rank 0");
}

TEST(OddValues, there_is_none_in_a_step_that_is_well) {
  Replicated run;
  run.step();
  EXPECT_FALSE(run.session->odd_value());
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
