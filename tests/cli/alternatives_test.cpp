// What `plan` says of what lost and of what binds is so: prices are those of the flags that they are told with, and memory
// binds where more of it makes a faster plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/explain/binding.h"
#include "tests/support/command_outcome.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;
using testing::with;
using Words = std::vector<std::string>;

struct PlanCase {
  std::string name, model, cluster;
  double share = 0;  // of the memory that the fastest plan takes; 0: no limit
  Words more = {};

  Words words() const { return with({"plan", model, "--cluster", cluster, "--optimizer", "adam"}, more); }
};
void PrintTo(const PlanCase& c, std::ostream* out) { *out << c.name; }

const std::string gpt = "gpt:layers=2,hidden=256,heads=8,vocab=1024,seq=256,batch=16";
const std::string odd = "llama:layers=3,hidden=128,heads=4,ffn=256,vocab=512,seq=64,batch=8";

/// SHARDWRIGHT_FULL=1: with more limits.
std::vector<PlanCase> cases() {
  std::vector<PlanCase> out;
  if (testing::is_full())
    out = {{"gpt_limited", gpt, "a100-80g:4", 0.6},
           {"gpt_tight", gpt, "h100:4", 0.35},
           {"llama_slow_links", odd, "v100-32g:2x2", 0.7}};
  const std::vector<PlanCase> always{
      {"gpt", gpt, "a100-80g:8"},
      {"gpt_stages", gpt, "a100-80g:4", 0, {"--fix", "pp=2"}},
      {"llama_slow", odd, "v100-32g:2x1", 0.7},
      {"llama_six", odd, "a100-80g:6", 0, {"--fix", "micro_batches=2"}},
      {"ffn", "ffn:batch=32", "cpu:4"},
      {"operator_fixed", gpt, "a100-80g:4", 0, {"--fix", "layers.*.ffn.up.matmul={n: tp}"}}};
  out.insert(out.end(), always.begin(), always.end());
  return out;
}

std::string cap_of(std::int64_t bytes) { return fmt::format("{}", bytes); }

/// `c` as it is, or within the limit.
Json planned(const PlanCase& c, Words* words = nullptr) {
  Words all = c.words();
  if (c.share > 0) {
    const double most = testing::outcome_of(with(all, {"--json"})).document().at("memory_bytes").at("arena");
    all = with(all, {"--memory-cap", cap_of(static_cast<std::int64_t>(c.share * most))});
  }
  if (words) *words = all;
  const testing::CommandOutcome out = testing::outcome_of(with(all, {"--json"}));
  EXPECT_EQ(out.status, 0) << out.err;
  return out.document();
}

/// Below what any plan takes: what comes nearest, the plan itself first among what is priced, each as its flag has it.
TEST(WhatComesNearest, is_told_where_nothing_fits) {
  const Words words{"plan", "ffn", "--devices", "4", "--optimizer", "adam", "--memory-cap", "1KB"};
  const testing::CommandOutcome text = testing::outcome_of(words),
                                json = testing::outcome_of(with(words, {"--json"}));
  EXPECT_EQ(text.status, 2);
  EXPECT_EQ(std::ranges::count(text.err, '\n'), 1) << text.err;
  EXPECT_TRUE(text.out.starts_with("nearest: ")) << text.out;
  EXPECT_LE(std::ranges::count(text.out, '\n'), 3);
  const Json refused = json.document();
  const Json& nearest = refused.at("alternatives");
  ASSERT_GT(nearest.size(), 1U);
  EXPECT_EQ(nearest.front().at("memory_bytes"), refused.at("memory_bytes").at("arena"));
  double last = 0;
  for (const Json& other : nearest) {
    if (other.at("known_by") == "bound") break;
    EXPECT_GE(other.at("memory_bytes").get<double>(), last);
    last = other.at("memory_bytes");
  }
  for (const Json& none : refused.at("dropped"))
    for (const Json& other : none.at("plans")) EXPECT_FALSE(other.contains("step_seconds"));
}

class WhatLost : public ::testing::TestWithParam<PlanCase> {};

TEST_P(WhatLost, takes_what_its_flag_says) {
  const PlanCase& c = GetParam();
  Words alone;
  const Json plan = planned(c, &alone);
  for (std::size_t i = 0; i < alone.size(); ++i)
    if (alone[i] == "--fix")
      alone.erase(alone.begin() + static_cast<long>(i), alone.begin() + static_cast<long>(i) + 2);
  int compared = 0;
  for (const Json& other : plan.at("alternatives")) {
    EXPECT_GT(other.at("step_seconds").get<double>(), 0);
    EXPECT_GT(other.at("memory_bytes").get<std::int64_t>(), 0);
    if (other.at("known_by") == "program" && other.at("reason") == "slower") {
      EXPECT_GE(other.at("step_seconds"), plan.at("step_seconds"));
    }
    if (other.at("flag").is_null()) continue;
    const bool is_program = other.at("known_by") == "program";
    if (!is_program && ++compared > 4) continue;
    const std::string text = other.at("plan");
    SCOPED_TRACE(text);
    const bool fits = other.at("reason") != "does not fit";
    if (!fits && other.at("flag") == "--fix") continue;  // without a limit stages are cut otherwise
    Words beside = alone;
    if (!fits && c.share > 0) beside.resize(beside.size() - 2);  // which would refuse it
    const testing::CommandOutcome o = testing::outcome_of(with(beside, {other.at("flag"), text, "--json"}));
    if (!is_program && o.status != 0) continue;  // the whole network cannot be split as its pieces can
    ASSERT_EQ(o.status, 0) << o.err;
    const Json again = o.document();
    const double seconds = other.at("step_seconds"), bytes = other.at("memory_bytes");
    // Of small networks forecasts err most; and who asks for one structure gets programs of more cuts of it.
    const bool is_cut = is_program && other.at("flag") == "--fix";
    const double tolerance = is_cut ? 0.12 : is_program ? 1e-9 : 0.3;
    EXPECT_NEAR(again.at("step_seconds"), seconds, tolerance * seconds);
    if (is_program) {
      EXPECT_LE(again.at("step_seconds").get<double>(), seconds * (1 + 1e-9));
    }
    EXPECT_NEAR(again.at("memory_bytes").at("arena"), bytes,
                (is_cut       ? 0.5
                 : is_program ? 1e-9
                              : 0.4) *
                    bytes);
  }
}

TEST_P(WhatLost, is_all_that_was_looked_at) {
  const Json plan = planned(GetParam());
  std::size_t count = 1;  // the plan
  for (const Json& other :
       plan.at("alternatives")) {  // what a part of is on the host is no further structure
    const bool is_offloaded = other.at("plan").get<std::string>().find("offload=") != std::string::npos;
    count += !other.at("flag").is_null() && !is_offloaded;
  }
  for (const Json& dropped : plan.at("dropped")) {
    EXPECT_LE(dropped.at("plans").size(), 100U);
    std::size_t words = 0;
    for (const Json& p : dropped.at("plans")) words += p.at("flag").is_null();
    count += dropped.at("count").get<std::size_t>() - words;
    EXPECT_EQ(dropped.at("plans").size(), std::min(dropped.at("count").get<std::size_t>(), std::size_t{100}));
  }
  const std::string text = testing::outcome_of(GetParam().words()).out;
  std::smatch looked;
  ASSERT_TRUE(std::regex_search(text, looked, std::regex("([0-9]+) structures looked at")));
  const std::size_t all = std::stoul(looked[1]);
  EXPECT_GE(count, all) << "of " << all;
  EXPECT_LE(count, all + 1);  // what is taken may be none of the structures
}

INSTANTIATE_TEST_SUITE_P(Plans, WhatLost, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

/// More memory makes a faster plan if and only if memory binds. SHARDWRIGHT_FULL=1 asks of every pair and more limits.
TEST(Binding, is_memory_where_more_of_it_makes_a_faster_plan) {
  const bool is_full = testing::is_full();
  int k = 0;
  for (const std::string& model : {gpt, odd, std::string("ffn:widths=784-512-512-10,batch=64")})
    for (const std::string& cluster : {std::string("a100-80g:4"), std::string("cpu:4")}) {
      if (k++ % 3 != 2 && !is_full) continue;
      const Words words{"plan", model, "--cluster", cluster, "--optimizer", "adam", "--json"};
      const Json freely = testing::outcome_of(words).document();
      EXPECT_EQ(freely.at("binding"), "time") << model << " on " << cluster;
      const double most = freely.at("memory_bytes").at("arena");
      for (const double share :
           is_full ? std::vector{1.5, 1.0, 0.9, 0.7, 0.5, 0.35} : std::vector{1.0, 0.6}) {
        const std::string cap = cap_of(static_cast<std::int64_t>(share * most));
        SCOPED_TRACE(fmt::format("{} on {} --memory-cap {}", model, cluster, cap));
        const testing::CommandOutcome o = testing::outcome_of(with(words, {"--memory-cap", cap}));
        if (o.status != 0) {
          EXPECT_EQ(o.document().at("binding"), "memory");
          break;
        }
        const Json limited = o.document();
        const double least = freely.at("step_seconds"), seconds = limited.at("step_seconds");
        EXPECT_EQ(limited.at("binding") == "memory", least < as_long * seconds) << least << " " << seconds;
        if (limited.at("binding") != "memory") continue;
        const Json& by = limited.at("binding_by");
        EXPECT_LT(by.at("step_seconds"), limited.at("step_seconds"));
        EXPECT_EQ(by.at("memory_bytes").get<std::int64_t>() - std::stoll(cap), by.at("excess_bytes"));
        EXPECT_GT(by.at("excess_bytes"), 0);
      }
    }
}

TEST(Binding, is_what_was_fixed_where_nothing_else_is_known) {
  const Words words{"plan", gpt, "--cluster", "a100-80g:4", "--json"};
  const Json fixed = testing::outcome_of(with(words, {"--fix", "tp=4"})).document();
  EXPECT_EQ(fixed.at("binding"), "fixed");
  EXPECT_EQ(fixed.at("binding_by").at("fixed"), "tp=4");
  EXPECT_EQ(fixed.at("binding_by").at("ask"), "explain PLAN tp");
  EXPECT_EQ(fixed.at("binding_by").at("known"), nullptr);
  const std::string set =
      testing::outcome_of(with(words, {"--set", "dp=4"})).document().at("binding_by").at("fixed");
  EXPECT_EQ(set.substr(0, 15), "dp=4,tp=1,pp=1,");
  EXPECT_EQ(testing::outcome_of(with(words, {"--parallel", "data_parallel"}))
                .document()
                .at("binding_by")
                .at("fixed"),
            "--parallel data_parallel");
  const Json stages = testing::outcome_of(with(words, {"--stages", "2", "--auto-pipeline", "0"})).document();
  EXPECT_EQ(stages.at("binding_by").at("known"), stages.at("suggestion"));
}

TEST(Binding, is_memory_where_nothing_fits) {
  const std::string large = "gpt:layers=2,hidden=8192,heads=64,vocab=131072,seq=256,batch=4";
  const Json plan =
      testing::outcome_of({"plan", large, "--cluster", "v100-32g:1", "--offload", "none", "--json"})
          .document();
  EXPECT_FALSE(plan.at("fits").get<bool>());
  EXPECT_EQ(plan.at("binding"), "memory");
  EXPECT_EQ(plan.at("binding_by").at("excess_bytes"), plan.at("excess_bytes"));
}

TEST(WhatLost, of_other_searches_are_the_programs_that_they_made) {
  const std::string model = "matmul_chain:widths=512-512,batch=512";
  for (const std::string search : {"exhaustive", "dynamic", "integer", "recursive", "propagation"}) {
    SCOPED_TRACE(search);
    const Json plan =
        testing::outcome_of({"plan", model, "--cluster", "a100-80g:2", "--search", search, "--json"})
            .document();
    if (search == "exhaustive") {
      EXPECT_FALSE(plan.at("alternatives").empty());
    }
    double last = 0;
    for (const Json& other : plan.at("alternatives")) {
      EXPECT_EQ(other.at("flag"), nullptr);
      EXPECT_GE(other.at("step_seconds"), plan.at("step_seconds"));
      EXPECT_GE(other.at("step_seconds").get<double>(), last);
      last = other.at("step_seconds");
    }
  }
}

TEST(WhatLost, is_told_below_the_plan) {
  const std::string text = testing::outcome_of({"plan", gpt, "--cluster", "a100-80g:8"}).out;
  EXPECT_NE(text.find("\nbinding: time\n"), text.npos) << text;
  EXPECT_NE(text.find("\nlost: --fix dp="), text.npos) << text;
  const std::string fixed =
      testing::outcome_of({"plan", gpt, "--cluster", "a100-80g:8", "--fix", "tp=4"}).out;
  EXPECT_NE(fixed.find("\nbinding: fixed: tp=4; explain PLAN tp prices others\n"), fixed.npos) << fixed;
}

TEST(WhatLost, of_a_plan_in_a_file_is_not_known) {
  EXPECT_FALSE(testing::outcome_of({"estimate", gpt, "--cluster", "a100-80g:4", "--set", "dp=4", "--json"})
                   .document()
                   .contains("binding"));
}

}  // namespace
}  // namespace shardwright
