#include "shardwright/plan/constraints.h"

#include <gtest/gtest.h>

#include <random>

#include "shardwright/plan/settings.h"

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
      {"", "zero_threshold=0", "zero_threshold=4096"},
      {"", "zero_group=2"},
      {"", "recompute=none", "recompute=selected", "recompute=full", "recompute=layers",
       "recompute=selected+layers"},
      {"", "recompute_communication=0", "recompute_communication=1"},
      {"", "recompute_shard_kept=1"},
      {"", "schedule=gpipe", "schedule=1f1b", "schedule=interleaved:2"},
      {"", "sequence_parallel=0", "sequence_parallel=1"},
      {"", "comm_fusion=none", "comm_fusion=all_reduce=size:16;all_gather=auto;reduce_scatter=none",
       "comm_fusion={all_reduce=index:1,3;all_gather=auto;reduce_scatter=auto}"},
      {"", "framework=megatron"},
      {"", "dataset=full_batch", "dataset={in: ((4, 1), (4,))}",
       "dataset={in: ((dp, None),), on: mesh [dp=2, tp=2]}"},
      {"", "a.up={}", "a.up={m: dp, n: tp}", "layers.*.up={m: dp.tp}"},
      {"", "b.up={in: ((2, 4), (4, 1)), out: ((2, 1),)}", "w={out: ((4, 1),)}",
       "b.up={in: ((dp, (mp, sp)), (None,)), out: ((), (dp,)), on: mesh [dp=2, mp=2, sp=2]}"},
      {"", "layers.0=stage 0", "layers.4-11=stage 3"},
      {"", "layers.0=fusion 0", "w=fusion 1000000"},
      {"", "layers.0=recompute", "layers.1=keep",
       "layers.0=recompute {communication: 0, shard_kept: 1, nodes: a.up b}"}};
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

/// By loop dims or by parts of tensors: an operator is split in one way.
TEST(Constraints, say_of_an_operator_how_it_is_split_once) {
  const Constraints by_loops = parsed("a={n: tp},b={}"), by_parts = parsed("a={in: ((2, 1), (1, 2))}");
  EXPECT_EQ(conflict_of(by_loops, by_parts)->wanted, "{in: ((2, 1), (1, 2))}");
  EXPECT_EQ(to_text(merged(by_loops, by_parts)), "b={},a={in: ((2, 1), (1, 2))}");
  EXPECT_EQ(to_text(merged(by_parts, by_loops)), to_text(by_loops));
}

/// Of one name several things may be said, each once.
TEST(Constraints, say_several_things_of_a_module) {
  const std::string text = "layers.0=stage 1,layers.0=fusion 2,layers.0=recompute";
  EXPECT_EQ(to_text(parsed(text)), text);
  EXPECT_EQ(message_of("layers.0=recompute,layers.0=keep"), "--fix: 'layers.0' is given twice");
  EXPECT_EQ(conflict_of(parsed(text), parsed("layers.0=keep"))->given, "recompute");
  const Constraints both = merged(parsed("b=recompute,a=recompute"), parsed("b=keep"));
  EXPECT_EQ(to_text(both), "a=recompute,b=keep");
}

/// What settings have of what is usual, constraints do not say.
TEST(Constraints, come_to_settings_and_back) {
  EXPECT_EQ(settings_of(Constraints{}), Settings{});
  EXPECT_EQ(constraints_of(Settings{}), Constraints{});
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = drawn(random);
    const Constraints said = text.empty() ? Constraints{} : parsed(text);
    if (said.schedule && !said.degrees.said("pp")) continue;  // named stages may be none of its chunks
    const Settings settings = settings_of(said);
    EXPECT_EQ(settings_of(constraints_of(settings)), settings) << text;
  }
  const Settings named = settings_of(parsed("a=stage 0,b=stage 2"));
  EXPECT_EQ(named.pipelining.stages, 3);
  EXPECT_EQ(named.pipelining.micro_batches, 3);
  EXPECT_EQ(settings_of(parsed("pp=2,micro_batches=8")).pipelining.micro_batches, 8);
  EXPECT_TRUE(settings_of(parsed("recompute=selected,sequence_parallel=1")).recompute.options.communication);
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
  EXPECT_EQ(message_of("dq=2").substr(0, 41), "--fix: 'dq' is unknown (did you mean dp?)");
  EXPECT_EQ(message_of("dp=0"), "--fix dp 0: should be an integer from 1 on, at most 1048576");
  EXPECT_EQ(message_of("cp=2"), "");
  const std::string ways = "there are gather, exchange, ring, exchange:N+ring and exchange:N+gather";
  EXPECT_EQ(message_of("context=all"), "--fix context all: " + ways);
  EXPECT_EQ(message_of("context=exchange:2+exchange"), "--fix context exchange:2+exchange: " + ways);
  EXPECT_EQ(message_of("context=exchange:2+"), "--fix context exchange:2+: " + ways);
  EXPECT_EQ(message_of("context=exchange:2"),
            "--fix context exchange:2: should say how the rest goes, as in exchange:2+ring; of all of cp it "
            "is exchange");
  EXPECT_EQ(message_of("context=exchange:1+ring"),
            "--fix context 1: should be an integer from 2 on, at most 1048576");
  EXPECT_EQ(message_of("context=exchange:2+ring"), "");
  EXPECT_EQ(message_of("recompute=some"),
            "--fix recompute some: there are none, selected, full, layers, selected+layers");
}

TEST(Constraints, say_what_is_wrong_of_a_split_of_tensors) {
  EXPECT_EQ(message_of("a={in: ((2, tp),)}"),
            "--fix a {in: ((2, tp),)}: mixes integers and axis names; use one kind");
  EXPECT_EQ(message_of("a={in: ((tp,),)}"),
            "--fix a {in: ((tp,),)}: axis names need a \"device_matrix\" with \"names\"");
  EXPECT_EQ(message_of("a={in: (2, 1)}").substr(0, 39), "--fix a: expected '(' of one input's sp");
  EXPECT_EQ(message_of("dataset=half"),
            "dataset strategy 'half' should be full_batch, data_parallel or splits such as ((4,1),(4,))");
  EXPECT_EQ(
      message_of("layers.0=recompute {often: 1}"),
      "--fix layers.0 recompute {often: 1}: 'often' is unknown; there are communication, shard_kept and "
      "nodes");
  EXPECT_EQ(message_of("layers.0=fusion x").substr(0, 18), "--fix layers.0 x: ");
}

TEST(Constraints, say_what_is_wrong_of_an_operator) {
  EXPECT_EQ(message_of("a={n: pp}"), "--fix a {n: pp}: 'pp' splits no operator; dp, tp and cp do");
  EXPECT_EQ(message_of("a={n: tp, m: tp}"), "--fix a {n: tp, m: tp}: tp splits two dims");
  EXPECT_EQ(message_of("a={n: tp, n: dp}"), "--fix a {n: tp, n: dp}: 'n' is split twice");
  EXPECT_EQ(message_of("a={n}"), "--fix a {n}: should be {LOOP DIM: DEGREE, ...}");
  EXPECT_EQ(message_of("a={n: tp"), "--fix a {n: tp: should be {LOOP DIM: DEGREE, ...}");
  EXPECT_EQ(message_of("a=stage x").substr(0, 12), "--fix a x: s");
  EXPECT_EQ(message_of("a={},a={}"), "--fix: 'a' is given twice");
}

}  // namespace
}  // namespace shardwright
