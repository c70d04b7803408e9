// Where nothing fits, what would: each remedy, said by its own flags, fits and takes what it says.

#include "shardwright/explain/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "tests/support/command_outcome.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;
using Flags = std::map<std::string, std::string>;

const std::string model = "llama:layers=2,hidden=128,heads=4,ffn=256,vocab=256,seq=128,batch=32";

testing::CommandOutcome plan_of(const Flags& flags, bool is_json = true) {
  std::vector<std::string> words{"plan", model};
  for (const auto& [flag, value] : flags) words.insert(words.end(), {flag, value});
  if (is_json) words.emplace_back("--json");
  return testing::outcome_of(words);
}

/// `change` takes the place of what was said.
Flags with(Flags flags, const std::string& change) {
  const auto words = split(std::string_view(change), ' ');
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) flags[std::string(words[i])] = words[i + 1];
  return flags;
}

std::int64_t bytes_of(const Flags& flags) {
  return plan_of(flags).document().at("memory_bytes").at("arena").get<std::int64_t>();
}

void expect_true(const Json& remedies, const Flags& flags) {
  double last = 0;
  for (const Json& remedy : remedies) {
    const std::string change = remedy.at("change");
    SCOPED_TRACE(change);
    const Json again = plan_of(with(flags, change)).document();
    EXPECT_TRUE(again.at("fits").get<bool>());
    EXPECT_EQ(again.at("step_seconds"), remedy.at("step_seconds"));
    EXPECT_EQ(again.at("memory_bytes").at("arena"), remedy.at("memory_bytes"));
    EXPECT_GE(remedy.at("step_seconds").get<double>(), last);
    last = remedy.at("step_seconds");
  }
}

std::set<std::string> flags_of(const Json& remedies) {
  std::set<std::string> out;
  for (const Json& remedy : remedies) {
    const std::string change = remedy.at("change");
    out.insert(change.substr(0, change.find(' ')));
  }
  return out;
}

/// Everything is fixed, so that each part is a way out.
TEST(Remedies, are_solved_anew_and_take_what_they_say) {
  const Flags fixed{{"--cluster", "a100-80g:4"}, {"--optimizer", "adamw"},      {"--stages", "1"},
                    {"--micro-batches", "1"},    {"--optimizer-parallel", "0"}, {"--recompute", "none"},
                    {"--fix", "tp=1,dp=4"},      {"--offload", "none"}};
  Flags capped = fixed;
  capped["--memory-cap"] = fmt::format("{}", bytes_of(fixed) * 97 / 100);
  const testing::CommandOutcome refused = plan_of(capped);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  const Json document = refused.document();
  EXPECT_EQ(document.at("status"), "infeasible");
  EXPECT_GT(document.at("excess_bytes"), 0);
  EXPECT_GT(document.at("memory_bytes").at("parameters"), 0);
  const std::set<std::string> have = flags_of(document.at("remedies"));
  for (const char* flag :
       {"--recompute", "--optimizer-parallel", "--micro-batches", "--precision", "--offload"})
    EXPECT_TRUE(have.contains(flag)) << flag << " " << document.at("remedies");
  expect_true(document.at("remedies"), capped);
}

TEST(Remedies, of_another_search_are_its_own_and_auto) {
  const Flags plain{{"--cluster", "a100-80g:4"}, {"--optimizer", "adamw"}, {"--search", "recursive"}};
  Flags capped = plain;
  capped["--optimizer-parallel"] = "0";
  std::int64_t least = bytes_of(plain);
  for (std::int64_t cap = least; cap > least / 64; cap = cap * 3 / 4) {
    capped["--memory-cap"] = fmt::format("{}", cap);
    const testing::CommandOutcome refused = plan_of(capped);
    if (refused.status == 0) continue;  // another split fits
    const Json remedies = refused.document().at("remedies");
    EXPECT_TRUE(flags_of(remedies).contains("--search") || cap < least / 4) << remedies;
    expect_true(remedies, capped);
    return;
  }
  FAIL() << "every cap fits";
}

/// The devices that suffice are the fewest of 2, 4, ... times those there are.
TEST(Remedies, say_how_many_devices_suffice) {
  Flags capped{{"--cluster", "a100-80g:2"}, {"--optimizer", "adamw"}, {"--offload", "none"}};
  Flags more = capped;
  more["--cluster"] = "a100-80g:8";
  more["--memory-cap"] = "1";  // the plan of least memory
  const auto least = plan_of(more).document().at("memory_bytes").at("arena").get<std::int64_t>();
  capped["--memory-cap"] = fmt::format("{}", least * 5 / 4);
  const Json document = plan_of(capped).document();
  const Json& remedies = document.at("remedies");
  expect_true(remedies, capped);
  EXPECT_TRUE(flags_of(remedies).contains("--cluster")) << document;
  for (const Json& remedy : remedies)
    if (remedy.at("change") == "--cluster a100-80g:8") {
      Flags fewer = capped;
      fewer["--cluster"] = "a100-80g:4";
      EXPECT_EQ(plan_of(fewer).status, 2);
    }
}

/// Below what the parameters of a device take nothing is found, and that is told in one line.
TEST(Remedies, are_none_below_the_parameters_own_size) {
  const testing::CommandOutcome refused = plan_of({{"--cluster", "a100-80g:2"}, {"--memory-cap", "100"}});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.document().at("remedies"), Json::array());
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
}

/// Without a flag of memory nothing is refused.
TEST(Remedies, of_devices_that_are_too_small_stand_below_the_plan) {
  const Flags flags{{"--cluster", "a100-80g:2"}, {"--global-batch", "131072"}, {"--micro-batches", "1"},
                    {"--precision", "f32"},      {"--optimizer", "sgd"},       {"--recompute", "none"},
                    {"--offload", "none"}};
  const testing::CommandOutcome json = plan_of(flags), text = plan_of(flags, false);
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(text.status, 0);
  const Json document = json.document();
  ASSERT_FALSE(document.at("fits").get<bool>());
  expect_true(document.at("remedies"), flags);
  std::size_t lines = 0;
  for (std::string_view line : split(std::string_view(text.out), '\n'))
    lines += line.starts_with("remedy: --");
  EXPECT_EQ(lines, document.at("remedies").size()) << text.out;
  EXPECT_GT(lines, 0U);
}

/// How many networks were made for the remedies of a plan of ffn that does not fit, within `deadline`.
std::pair<int, Remedies> asked_within(const Deadline& deadline) {
  int made = 0;
  const StepOf step = [&](int micro_batches) {
    ++made;
    Model ffn = build_model("ffn", {.micro_batches = micro_batches});
    add_train_step(ffn.graph, ffn.loss, {});
    return std::move(ffn.graph);
  };
  const StepsOf steps = [&](const Origin&) { return step; };
  PlanRequest request{.model = "ffn", .devices = 4, .search = "recursive"};
  const Graph graph = step(1);
  const Plan plan = make_plan(graph, request);
  Evaluation evaluation = evaluate(compile_pipeline(graph, plan, {}), plan.cluster, {.framework = "ours"});
  evaluation.cap_bytes = evaluation.estimate.arena_bytes - 1;
  request.options.most_seconds = 1;
  request.options.deadline = deadline;
  made = 0;
  Remedies out = remedies_for({request, plan, evaluation}, step, steps);
  return {made, std::move(out)};
}

/// One clock for the plan and for what is asked after it.
TEST(Remedies, are_not_asked_for_once_the_time_is_over) {
  const auto [in_time, found] = asked_within(Deadline(1e6));
  EXPECT_GT(in_time, 0);
  EXPECT_TRUE(found.unasked.empty());
  const auto [late, none] = asked_within(Deadline(0));
  EXPECT_EQ(late, 0);
  EXPECT_TRUE(none.found.empty());
  EXPECT_EQ(none.unasked,
            (std::vector<std::string>{"--search auto", "--precision", "--devices", "--recompute",
                                      "--optimizer-parallel", "--micro-batches", "--stages", "--offload"}));
}

TEST(Remedies, that_nobody_looked_at_are_told) {
  const Flags late{{"--cluster", "a100-80g:4"}, {"--memory-cap", "100"}, {"--search-time", "0"}};
  const testing::CommandOutcome refused = plan_of(late);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  EXPECT_EQ(refused.document().at("remedies"), Json::array());
  EXPECT_FALSE(refused.document().at("remedies_unasked").empty());
  EXPECT_NE(refused.err.find("as --search-time 0 was over: --precision"), std::string::npos) << refused.err;
}

/// Of a word's values only the plan's own is known without a search.
TEST(OtherValues, are_not_asked_for_once_the_time_is_over) {
  const StepOf step = [&](int micro_batches) {
    Model ffn = build_model("ffn", {.micro_batches = micro_batches});
    add_train_step(ffn.graph, ffn.loss, {});
    return std::move(ffn.graph);
  };
  const Plan plan = make_plan(step, {.model = "ffn", .devices = 4});
  const auto values = [&](const Deadline& deadline) {
    return other_values("tp", plan, step, {.samples = 32, .most_seconds = 1, .deadline = deadline});
  };
  EXPECT_EQ(values(Deadline(1e6)).told.size(), 3U);
  EXPECT_TRUE(values(Deadline(1e6)).unasked.empty());
  const OtherValues late = values(Deadline(0));
  ASSERT_EQ(late.told.size(), 1U);
  EXPECT_EQ(late.told.front().answer.status, WhyNotStatus::chosen);
  EXPECT_EQ(late.unasked.size(), 2U);
}

}  // namespace
}  // namespace shardwright
