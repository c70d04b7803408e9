// The loop as a library: the losses of the command, events in their order, an end before the last step, and on from there.
#include "shardwright/training/train.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/frontend/fit.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

constexpr const char* net = "ffn:batch=8,widths=6-5-3";

/// A network of 2 devices with its data, as `train` makes them.
struct Training {
  Model model = build_model(net);
  Plan plan;
  TrainingData data;
  std::optional<Session> session;

  explicit Training(bool has_set_rate = false) {
    add_train_step(
        model.graph, model.loss,
        {.name = "momentum", .attributes = {{"rate", 0.1}, {"momentum", 0.9}}, .has_set_rate = has_set_rate});
    plan = make_plan(model.graph, {.model = net, .devices = 2, .search = "recursive"});
    std::ostringstream notices;
    data = training_data(model, 1, "", "", 1, notices);
    session.emplace(compile_pipeline(model.graph, plan, {.formats = default_devices().formats}),
                    SessionOptions{.seed = 1});
  }
  std::vector<double> losses(FitOptions options, const OnEvent& on_event = {}) {
    std::vector<double> out;
    ended = fit(*session, plan, data, options, [&](const TrainingEvent& event) {
      if (const auto* step = std::get_if<StepDone>(&event)) out.push_back(step->told.loss);
      return on_event ? on_event(event) : Then::goes_on;
    });
    return out;
  }
  TrainingEnded ended;
};

/// Ends the run behind this step.
OnEvent ends_behind(std::int64_t step) {
  return [step](const TrainingEvent& event) {
    const auto* done = std::get_if<StepDone>(&event);
    return done && done->step == step ? Then::ends : Then::goes_on;
  };
}

TEST(Training, has_the_losses_of_the_command) {
  const auto command =
      testing::outcome_of({"train", net, "--devices", "2", "--search", "recursive", "--optimizer", "momentum",
                           "--lr", "0.1", "--momentum", "0.9", "--steps", "6", "--json"});
  std::vector<double> told;
  for (std::string_view line : split(command.out, '\n'))
    if (const auto json = nlohmann::json::parse(line, nullptr, false);
        json.is_object() && json.contains("loss"))
      told.push_back(json["loss"]);
  ASSERT_EQ(told.size(), 6);
  EXPECT_NE(told.back(), told.front());
  EXPECT_EQ(Training().losses({.steps = 6}), told);
}

TEST(Training, ends_when_it_is_asked_to_and_goes_on_from_there) {
  const std::vector<double> whole = Training().losses({.steps = 7});
  const std::string run = scratch_folder() + "/run";
  Training first;
  std::vector<double> parts = first.losses({.steps = 7, .save = run}, ends_behind(2));
  EXPECT_EQ(first.ended.by, EndedBy::request);
  EXPECT_EQ(first.ended.steps, 3);
  Training second;
  bool is_interrupted = false;
  const std::vector<double> some = second.losses(
      {.steps = 7, .save = run, .resume = "auto", .is_interrupted = [&] { return is_interrupted; }},
      [&](const TrainingEvent& event) {
        const auto* done = std::get_if<StepDone>(&event);
        is_interrupted |= done && done->step == 4;
        return Then::goes_on;
      });
  EXPECT_EQ(second.ended.by, EndedBy::interrupt);
  EXPECT_EQ(second.ended.first, 3);
  parts.insert(parts.end(), some.begin(), some.end());
  Training third;
  const std::vector<double> rest = third.losses({.steps = 7, .save = run, .resume = "auto"});
  EXPECT_EQ(third.ended.by, EndedBy::steps);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
  Training fourth;
  EXPECT_TRUE(fourth.losses({.steps = 7, .save = run, .resume = "auto"}).empty());
  EXPECT_EQ(fourth.ended.by, EndedBy::none_left);
}

TEST(Training, goes_on_in_the_same_session) {
  const std::vector<double> whole = Training().losses({.steps = 5});
  Training both;
  std::vector<double> parts = both.losses({.steps = 2});
  const std::vector<double> rest = both.losses({.first = 2, .steps = 5});
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

/// Of an event, where it says one, its step.
std::string told(const TrainingEvent& event) {
  return std::visit(
      Each{[](const TrainingBegan& e) { return fmt::format("began {} of {}", e.first, e.steps); },
           [](const StepBegins& e) { return fmt::format("begins {}", e.step); },
           [](const StepDone& e) { return fmt::format("done {}", e.step); },
           [](const Evaluated& e) { return fmt::format("evaluated {} {}", e.step, e.loss); },
           [](const Saved& e) { return fmt::format("saved {}", e.step); },
           [](const TrainingEnded& e) { return fmt::format("ended {}", e.steps); },
           [](const auto&) { return std::string("other"); }},
      event);
}

TEST(Training, tells_events_in_their_order_and_saves_what_is_best) {
  const std::string run = scratch_folder() + "/run";
  std::vector<std::string> all;
  const std::vector<double> held_out{3, 1, 2};
  FitOptions options{.steps = 3, .save = run, .eval_every = 1, .keep_best = "loss"};
  options.evaluate = [&](const Session&, std::int64_t steps) {
    return Evaluated{.loss = held_out[static_cast<std::size_t>(steps - 1)]};
  };
  Training().losses(options, [&](const TrainingEvent& event) {
    if (!std::holds_alternative<Saved>(event)) all.push_back(told(event));  // told when it is whole
    return Then::goes_on;
  });
  EXPECT_EQ(all, (std::vector<std::string>{"began 0 of 3", "begins 0", "done 0", "evaluated 1 3", "begins 1",
                                           "done 1", "evaluated 2 1", "begins 2", "done 2", "evaluated 3 2",
                                           "ended 3"}));
  EXPECT_EQ(CheckpointReader(run + "/best").manifest().run.step, 2);
  EXPECT_EQ(CheckpointReader(run + "/best").manifest().run.best, 1);
}

TEST(Training, rates_are_those_of_the_schedule_and_the_step_keeps_its_own) {
  Training training(true);
  const RateSchedule rates("cosine:end=0.01", "2", 0.1, {.steps = 6});
  training.losses({.steps = 6, .lr_schedule = "cosine:end=0.01", .warmup = "2"},
                  [&](const TrainingEvent& event) {
                    if (const auto* done = std::get_if<StepDone>(&event)) {
                      EXPECT_EQ(done->rate, rates.at(done->step));
                    }
                    return Then::goes_on;
                  });
  EXPECT_EQ(to_doubles(training.session->get(rate_state)).front(), 0.1);
}

TEST(Training, what_a_run_goes_on_with_otherwise_is_told) {
  const std::string run = scratch_folder() + "/run";
  Training(true).losses({.steps = 2, .lr_schedule = "cosine", .save = run});
  std::vector<std::string> all;
  Training(true).losses({.steps = 3, .save = run, .resume = "auto"}, [&](const TrainingEvent& event) {
    if (const auto* notice = std::get_if<CheckpointNotice>(&event)) all.push_back(notice->text);
    return Then::goes_on;
  });
  EXPECT_EQ(
      all, std::vector{
               run + "/step-00000002: the learning rate's schedule was cosine and is constant from here on"});
}

TEST(Training, a_limit_of_time_ends_it_behind_a_step) {
  Training training;
  EXPECT_TRUE(training.losses({.steps = 6, .time_limit = 1e-9}).empty());
  EXPECT_EQ(training.ended.by, EndedBy::time_limit);
}

TEST(Training, options_that_contradict_each_other_are_named_as_code_has_them) {
  Training training;
  const auto message = [&](const FitOptions& options) { return error_of([&] { training.losses(options); }); };
  EXPECT_EQ(message({.save_every = 2}), "save_every says how to save; give save, too");
  EXPECT_EQ(message({.save_every = -2}), "save_every -2: should be a number from 1 on");
  EXPECT_EQ(message({.resume = "auto"}), "resume auto goes on from the folder of save; give that");
  EXPECT_EQ(message({.resume = "auto", .init = "x"}),
            "resume goes on with a run and init starts one; give one of them");
  EXPECT_EQ(message({.eval_every = 2}), "eval_every says when to evaluate; give evaluate, too");
  EXPECT_EQ(message({.keep_best = "lost"}), "keep_best lost: there are loss, accuracy");
  EXPECT_EQ(message({.keep_best = "loss"}), "keep_best loss: give evaluate, too");
  EXPECT_EQ(message({.steps = -1}), "steps -1: should be a number from 0 on");
  EXPECT_EQ(message({.time_limit = -1}), "time_limit -1: should be seconds, more than 0");
  EXPECT_EQ(
      message({.lr_schedule = "cosine"}),
      "lr_schedule cosine: the optimizer of this step has a fixed rate; make the step with has_set_rate");
}

TEST(Training, a_loss_that_is_none_is_told_once_with_where_the_batch_holds_infinity) {
  Training training;
  const auto batch = training.data.batch;
  training.data.batch = [&](std::int64_t step) {
    StepBatch out = batch(step);
    if (step == 1) out.at("input").as<float>()[7] = INFINITY;
    return out;
  };
  std::vector<LossNotFinite> all;
  training.losses({.steps = 4}, [&](const TrainingEvent& event) {
    if (const auto* none = std::get_if<LossNotFinite>(&event)) all.push_back(*none);
    return Then::goes_on;
  });
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].step, 1);
  EXPECT_EQ(all[0].infinity, "'input' holds inf at [1, 1]");
}

}  // namespace
}  // namespace shardwright
