// What `explain --why-not` and `diff` say of two steps is what `simulate` says of each.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/base/file.h"
#include "shardwright/cli/verb.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

const std::string model = "llama:layers=2,hidden=512,heads=8,ffn=1024,vocab=1024,seq=256,batch=32";

/// A file in `folder` with the plan under `fixed`; empty if there is none.
std::string planned(const std::string& folder, const std::string& fixed) {
  const std::string path = fmt::format("{}/plan_{}.json", folder, fixed);
  std::vector<std::string> words{"plan", model, "--cluster", "a100-80g:8", "--optimizer", "adam", "-o", path};
  if (!fixed.empty()) words.insert(words.end(), {"--fix", fixed});
  return testing::outcome_of(words).status == 0 ? path : "";
}

Json simulated(const std::string& path) {
  return testing::outcome_of({"simulate", path, "--json"}).document();
}

/// Every way to share 8 devices.
std::vector<std::string> neighbours() {
  std::vector<std::string> out;
  for (int data = 1; data <= 8; data *= 2)
    for (int tensor = 1; data * tensor <= 8; tensor *= 2)
      out.push_back(fmt::format("dp={},tp={},pp={}", data, tensor, 8 / data / tensor));
  return out;
}

/// The parts of `b` less those of `a`, as `simulate` has them.
void expect_difference(const Json& told, const Json& a, const Json& b) {
  const auto less = [&](const char* key) { return b.at(key).get<double>() - a.at(key).get<double>(); };
  const double rounding = 1e-12;
  const Json& seconds = told.at("difference_seconds");
  const double again = less("recompute_seconds");
  EXPECT_NEAR(seconds.at("compute"), less("compute_seconds") - again, rounding);
  EXPECT_NEAR(seconds.at("communication"), less("exposed_communication_seconds"), rounding);
  EXPECT_NEAR(seconds.at("bubble"), less("bubble_seconds"), rounding);
  EXPECT_NEAR(seconds.at("recompute"), again, rounding);
  double sum = 0;
  for (const auto& [part, value] : seconds.items()) sum += value.get<double>();
  EXPECT_NEAR(sum, less("step_seconds"), rounding);
  const Json& bytes = told.at("difference_bytes");
  std::int64_t all = 0;
  for (const auto& [kind, value] : bytes.items()) {
    EXPECT_EQ(value, b.at("memory_bytes").at(kind).get<std::int64_t>() -
                         a.at("memory_bytes").at(kind).get<std::int64_t>())
        << kind;
    if (kind != "arena") all += value.get<std::int64_t>();
  }
  EXPECT_EQ(all, bytes.at("arena"));
}

TEST(WhyNot, parts_of_each_neighbour_add_up_to_what_simulate_says_of_both_steps) {
  const std::string folder = scratch_folder(), path = planned(folder, "");
  const Json here = simulated(path);
  std::map<std::string, int> count;
  for (const std::string& asked : neighbours()) {
    SCOPED_TRACE(asked);
    const Json told = testing::outcome_of({"explain", path, "--why-not", asked, "--json"}).document();
    EXPECT_EQ(told.at("asked"), asked);
    const std::string status = told.at("status");
    ++count[status];
    const std::string other = planned(folder, asked);
    EXPECT_EQ(status == "infeasible", other.empty()) << told.dump();
    if (status == "infeasible") {
      EXPECT_TRUE(told.at("difference_seconds").is_null());
      EXPECT_NE(told.at("why").get<std::string>().find("no plan"), std::string::npos);
      continue;
    }
    const Json there = status == "chosen" ? here : simulated(other);
    EXPECT_EQ(told.at("step_seconds"), there.at("step_seconds"));
    expect_difference(told, here, there);
    if (status == "feasible") {
      EXPECT_GE(there.at("step_seconds"), here.at("step_seconds")) << "the search left a faster plan";
    }
  }
  EXPECT_EQ(count["chosen"], 1);
  EXPECT_GE(count["feasible"], 5);
}

/// Each value of a word, as `plan` with it and all other words of the plan says.
TEST(OtherValues, take_what_a_plan_with_them_takes) {
  const std::string folder = scratch_folder();
  const std::string words = "dp=2,tp=2,pp=2,micro_batches=4,schedule=1f1b,sequence_parallel=0";
  const std::string path = planned(folder, words + ",zero=1,recompute=none");
  const Json here = simulated(path);
  for (const auto& [word, beside] : std::map<std::string, std::string>{{"zero", words + ",recompute=none"},
                                                                       {"recompute", words + ",zero=1"}}) {
    const Json told = testing::outcome_of({"explain", path, word, "--json"}).document();
    EXPECT_EQ(told.at("word"), word);
    ASSERT_GE(told.at("candidates").size(), 3u);
    EXPECT_EQ(told.at("candidates")[0].at("status"), "chosen");
    for (const Json& candidate : told.at("candidates")) {
      const std::string value = candidate.at("value");
      SCOPED_TRACE(word + "=" + value);
      const Json there = simulated(planned(folder, fmt::format("{},{}={}", beside, word, value)));
      EXPECT_EQ(candidate.at("step_seconds"), there.at("step_seconds"));
      expect_difference(candidate, here, there);
    }
  }
}

TEST(Diff, is_what_simulate_says_and_the_other_way_round_the_negative) {
  const std::string folder = scratch_folder();
  std::vector<std::string> paths;
  for (const char* fixed : {"dp=8", "dp=4,tp=2,zero=0", "pp=2,dp=2,tp=2", "recompute=full,dp=8"})
    paths.push_back(planned(folder, fixed));
  for (const std::string& a : paths)
    for (const std::string& b : paths) {
      SCOPED_TRACE(a + " " + b);
      const Json there = testing::outcome_of({"diff", a, b, "--json"}).document();
      const Json back = testing::outcome_of({"diff", b, a, "--json"}).document();
      EXPECT_EQ(there.at("equal"), a == b);
      EXPECT_EQ(there.at("equal"), there.at("differences").empty());
      EXPECT_EQ(there.at("differences").size(), back.at("differences").size());
      expect_difference(there, simulated(a), simulated(b));
      for (const char* parts : {"difference_seconds", "difference_bytes"})
        for (const auto& [part, value] : there.at(parts).items())
          EXPECT_EQ(value.get<double>(), -back.at(parts).at(part).get<double>()) << part;
    }
}

TEST(Diff, tells_of_every_member_that_a_plan_decides) {
  const std::string folder = scratch_folder(), path = planned(folder, "dp=4,tp=2,zero=1");
  const std::string text = read_text(path);
  const auto what = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const std::string other = folder + "/changed.json";
    write_file(other, changed);
    const Json rows = testing::outcome_of({"diff", path, other, "--json"}).document().at("differences");
    return rows.empty() ? "nothing" : rows[0].at("what").get<std::string>();
  };
  EXPECT_EQ(what("\"zero\": 1", "\"zero\": 2"), "zero");
  EXPECT_EQ(what("\"zero_threshold\": 65536", "\"zero_threshold\": 1024"), "zero");
  EXPECT_EQ(what("\"recompute\": \"none\"", "\"recompute\": \"full\""), "recompute");
  EXPECT_EQ(what("\"recompute\": \"none\"", "\"recompute\": {\"mode\": \"selected\", \"shard_kept\": true}"),
            "recompute");
  EXPECT_EQ(what("\"comm_fusion\": \"auto\"", "\"comm_fusion\": \"none\""), "comm_fusion");
  EXPECT_EQ(what("\"cluster\": \"a100-80g:8\"", "\"cluster\": \"h100:8\""), "cluster");
  EXPECT_EQ(what("\"rate\": 0.01", "\"rate\": 0.02"), "rate");
  EXPECT_EQ(what("\"precision\": \"bf16\"", "\"precision\": \"f32\""), "precision");
  EXPECT_EQ(what("\"search\": \"auto\"", "\"search\": \"recursive\""), "nothing");
  EXPECT_EQ(what("\"status\": \"feasible\"", "\"status\": \"optimal\""), "nothing");
}

}  // namespace
}  // namespace shardwright
