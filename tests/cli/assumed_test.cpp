// What a command assumes as on accelerators: every verb the same, told by each, and gone where it is said.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shardwright/cli/verb.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;
using testing::CommandOutcome;
using testing::outcome_of;
using testing::with;
using Words = std::vector<std::string>;

const std::string net = "matmul_chain:widths=64-96-64,batch=32";
const Words on_a100{"--cluster", "a100-80g:4"};

Json request_of(const Words& words) {
  const CommandOutcome out = outcome_of(with(words, {"--json"}));
  EXPECT_EQ(out.status, 0) << out.err;
  return out.document().at("request");
}

TEST(AssumedOnAccelerators, is_in_the_request) {
  const Json all = request_of({"plan", "llama2-7b", "--cluster", "a100-80g:8"});
  EXPECT_EQ(all["precision"], "bf16");
  EXPECT_EQ(all["optimizer"], "adamw");
  EXPECT_EQ(all["global_batch"], 1024);
  EXPECT_EQ(all["assumed"], Json({"global_batch", "precision", "optimizer", "memory_cap"}));
  const Json said =
      request_of(with({"plan", net}, with(on_a100, {"--precision", "f32", "--optimizer", "sgd"})));
  EXPECT_EQ(said["precision"], "f32");
  EXPECT_EQ(said["optimizer"], "sgd");
  EXPECT_EQ(said["assumed"], Json({"memory_cap"}));
  const Json host = request_of({"plan", net, "--devices", "4"});
  EXPECT_EQ(host["precision"], "f32");
  EXPECT_EQ(host["optimizer"], "sgd");
}

/// Said or assumed, a plan is the same.
TEST(AssumedOnAccelerators, is_what_saying_it_gives) {
  const auto step_of = [](Words more) {
    return outcome_of(with(with({"plan", net, "--json"}, on_a100), more)).document().at("step_seconds");
  };
  EXPECT_EQ(step_of({}), step_of({"--precision", "bf16", "--optimizer", "adamw"}));
  EXPECT_NE(step_of({}), step_of({"--precision", "f32", "--optimizer", "sgd"}));
}

TEST(AssumedOnAccelerators, is_told_by_verbs_without_a_report) {
  const std::string line = "assumed on a100-80g:4: --precision bf16 --optimizer adamw\n";
  for (const char* verb : {"verify", "lower", "simulate"}) {
    const CommandOutcome out = outcome_of(with({verb, net}, on_a100));
    EXPECT_EQ(out.status, 0) << verb << out.err;
    EXPECT_NE(out.err.find(line), std::string::npos) << verb << ": " << out.err;
    const CommandOutcome said =
        outcome_of(with({verb, net, "--precision", "bf16", "--optimizer", "adamw"}, on_a100));
    EXPECT_EQ(said.err.find("assumed"), std::string::npos) << verb << ": " << said.err;
  }
  const CommandOutcome shown = outcome_of(with({"show", net, "--layouts"}, on_a100));
  EXPECT_NE(shown.err.find("assumed on a100-80g:4: --precision bf16\n"), std::string::npos) << shown.err;
}

TEST(AssumedOnAccelerators, trains_so_and_is_kept_in_the_plan) {
  const std::string plan = scratch_folder() + "/p.json";
  ASSERT_EQ(outcome_of(with({"plan", net, "-o", plan}, on_a100)).status, 0);
  const CommandOutcome assumed = outcome_of(with({"train", net, "--steps", "3", "--json"}, on_a100));
  EXPECT_NE(assumed.err.find("assumed on a100-80g:4: --precision bf16 --optimizer adamw"), std::string::npos)
      << assumed.err;
  const CommandOutcome planned = outcome_of({"train", net, "--steps", "3", "--json", "--plan", plan});
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_EQ(planned.err.find("assumed"), std::string::npos);
  const auto loss_of = [](const CommandOutcome& out) {
    return Json::parse(out.out.substr(0, out.out.find('\n')))["loss"];
  };
  EXPECT_EQ(loss_of(assumed), loss_of(planned));
}

/// A graph as text has types of its own.
TEST(AssumedOnAccelerators, leaves_a_graph_its_types) {
  const std::string path = scratch_folder() + "/net.graph";
  write_bytes(path, outcome_of({"show", net}).out);
  const Json asked = request_of(with({"plan", path}, on_a100));
  EXPECT_EQ(asked["precision"], "f32");
  EXPECT_EQ(asked["optimizer"], "adamw");
  EXPECT_EQ(asked["assumed"], Json({"optimizer", "memory_cap"}));
}

}  // namespace
}  // namespace shardwright
