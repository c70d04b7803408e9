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
      {"", "sequence_parallel=0", "sequence_parallel=1"}};
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
    EXPECT_EQ(contradicted(both, strong), "");
    EXPECT_EQ(contradicted(weak, strong), strong.degrees.said("dp").value_or(2) == 2 ? "" : "dp");
    EXPECT_EQ(merged(both, strong), both);
    EXPECT_EQ(merged(Constraints{}, strong), strong);
  }
}

TEST(Constraints, say_what_is_wrong_of_a_text) {
  EXPECT_EQ(message_of("dp"), "--fix 'dp': should be KEY=VALUE,...");
  EXPECT_EQ(message_of("dp=2,dp=2"), "--fix: 'dp' is given twice");
  EXPECT_EQ(message_of("dq=2").substr(0, 47), "--fix: 'dq' is unknown (did you mean dp?); ther");
  EXPECT_EQ(message_of("dp=0"), "--fix dp 0: should be an integer from 1 to 16384");
  EXPECT_EQ(message_of("cp=2"), "--fix cp 2: there is no context parallelism yet; leave cp at 1");
  EXPECT_EQ(message_of("recompute=some"),
            "--fix recompute some: should be none, selected, full, layers or selected+layers");
}

}  // namespace
}  // namespace shardwright
