#include "shardwright/plan/constraints.h"

#include <gtest/gtest.h>

#include <random>

namespace shardwright {
namespace {

Constraints parsed(const std::string& text) { return parse_constraints({"--fix", text}); }

std::string message_of(const std::string& text) {
  try {
    parsed(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Of each word a value or none, drawn.
std::string drawn(std::mt19937& random) {
  const std::vector<std::vector<std::string>> values{
      {"", "dp=1", "dp=4"},
      {"", "tp=2", "tp=12"},
      {"", "pp=1", "pp=16384"},
      {"", "cp=1"},
      {"", "ep=1"},
      {"", "micro_batch=1", "micro_batch=5000000000"},
      {"", "micro_batches=8"},
      {"", "global_batch=1024"},
      {"", "zero=0", "zero=3"},
      {"", "recompute=none", "recompute=selected", "recompute=full", "recompute=layers",
       "recompute=selected+layers"},
      {"", "schedule=gpipe", "schedule=1f1b", "schedule=interleaved:2"},
      {"", "sequence_parallel=0", "sequence_parallel=1"},
      {"", "a.up={}", "a.up={m: dp, n: tp}", "layers.*.up={m: dp.tp}"},
      {"", "layers.0=stage 0", "layers.4-11=stage 3"}};
  std::string out;
  for (const auto& of_word : values) {
    const std::string& word = of_word[random() % of_word.size()];
    if (!word.empty()) out += (out.empty() ? "" : ",") + word;
  }
  return out;
}

TEST(Constraints, have_one_text_form) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = drawn(random);
    if (text.empty()) continue;
    EXPECT_EQ(to_text(parsed(text)), text);
    EXPECT_EQ(parsed(to_text(parsed(text), ", ")), parsed(text));
  }
}

TEST(Constraints, name_operators_and_modules) {
  const Constraints c = parsed("tp=2,layers.0.up={ n:tp , m : dp},layers.0=stage 0,layers.1-3=stage 1");
  EXPECT_EQ(c.operators, (std::map<std::string, LoopSplit>{{"layers.0.up", {{"n", {"tp"}}, {"m", {"dp"}}}}}));
  EXPECT_EQ(c.stages, (std::map<std::string, int>{{"layers.0", 0}, {"layers.1-3", 1}}));
  EXPECT_EQ(conflict_of(c, parsed("layers.0.up={n: tp}"))->key, "layers.0.up");
  EXPECT_EQ(conflict_of(c, parsed("layers.0=stage 1"))->key, "layers.0");
  EXPECT_EQ(merged(c, parsed("layers.0.up={}")).operators.at("layers.0.up"), LoopSplit{});
}

/// Words may stand in any order, with spaces; a word that was never said is not 1.
TEST(Constraints, say_no_more_than_was_said) {
  EXPECT_EQ(parsed("pp=2, dp = 4"), parsed("dp=4,pp=2"));
  EXPECT_NE(parsed("dp=4"), parsed("dp=4,tp=1"));
  EXPECT_EQ(to_text(Constraints{}), "");
  const Degrees degrees = parsed("dp=4,pp=2").degrees;
  EXPECT_EQ(degrees.said("tp"), std::nullopt);
  EXPECT_EQ(degrees.of("tp"), 1);
  EXPECT_EQ(degrees.sharing(Sharing::batch), 4);
  EXPECT_EQ(degrees.sharing(Sharing::work), 1);
  EXPECT_EQ(degrees.devices(), 8);
}

TEST(Constraints, are_merged_word_by_word) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = drawn(random);
    const Constraints weak = parsed("dp=2"), strong = text.empty() ? Constraints{} : parsed(text);
    const Constraints both = merged(weak, strong);
    EXPECT_FALSE(conflict_of(both, strong));
    const auto found = conflict_of(weak, strong);
    EXPECT_EQ(found ? found->key : "", strong.degrees.said("dp").value_or(2) == 2 ? "" : "dp");
    EXPECT_EQ(merged(both, strong), both);
    EXPECT_EQ(merged(Constraints{}, strong), strong);
  }
}

TEST(Constraints, say_what_is_wrong_of_a_text) {
  EXPECT_EQ(message_of("dp"), "--fix 'dp': should be KEY=VALUE,...");
  EXPECT_EQ(message_of("dp=2,dp=2"), "--fix: 'dp' is given twice");
  EXPECT_EQ(message_of("dq=2").substr(0, 47), "--fix: 'dq' is unknown (did you mean dp or cp?)");
  EXPECT_EQ(message_of("dp=0"), "--fix dp 0: should be an integer from 1 on, at most 1048576");
  EXPECT_EQ(message_of("cp=2"), "--fix cp 2: there is no context parallelism yet; leave cp at 1");
  EXPECT_EQ(message_of("recompute=some"),
            "--fix recompute some: there are none, selected, full, layers, selected+layers");
}

TEST(Constraints, say_what_is_wrong_of_an_operator) {
  EXPECT_EQ(message_of("a={n: pp}"), "--fix a {n: pp}: 'pp' splits no operator; dp and tp do");
  EXPECT_EQ(message_of("a={n: tp, m: tp}"), "--fix a {n: tp, m: tp}: tp splits two dims");
  EXPECT_EQ(message_of("a={n: tp, n: dp}"), "--fix a {n: tp, n: dp}: 'n' is split twice");
  EXPECT_EQ(message_of("a={n}"), "--fix a {n}: should be {LOOP DIM: DEGREE, ...}");
  EXPECT_EQ(message_of("a={n: tp"), "--fix a {n: tp: should be {LOOP DIM: DEGREE, ...}");
  EXPECT_EQ(message_of("a=stage x").substr(0, 12), "--fix a x: s");
  EXPECT_EQ(message_of("a={},a={}"), "--fix: 'a' is given twice");
}

}  // namespace
}  // namespace shardwright
