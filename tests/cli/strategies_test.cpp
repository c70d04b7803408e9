// Plans as strategy files, and strategy files as what is asked of plans.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/annotations/strategy_file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/plan/plan.h"
#include "tests/support/command_outcome.h"
#include "tests/support/draws.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::with;
using Words = std::vector<std::string>;

/// In a folder of its own.
class Strategies : public ::testing::Test {
 protected:
  Strategies() : before_(std::filesystem::current_path()) { std::filesystem::current_path(scratch_folder()); }
  ~Strategies() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

/// Of each operator its stage and its strategy.
auto strategies_in(const Plan& plan) {
  std::map<std::string, std::pair<std::size_t, decltype(PlannedOperator::strategy)>> out;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const PlannedOperator& op : plan.stages[s].operators) out[op.name] = {s, op.strategy};
  return out;
}

bool is_whole(const Plan& plan) {
  return std::ranges::all_of(strategies_in(plan), [](const auto& op) { return op.second.second.empty(); });
}

constexpr const char* chain = "matmul_chain:widths=16-32-16-8,batch=16";

TEST_F(Strategies, of_a_plan_give_the_same_plan) {
  const std::vector<Words> cases{
      {chain, "--devices", "8"},
      {chain, "--devices", "4", "--search", "exhaustive"},
      {chain, "--devices", "6"},
      {"ffn:widths=16-16-8,batch=16", "--devices", "8", "--optimizer", "adam", "--optimizer-parallel",
       "3:threshold=0"},
      {"ffn:widths=16-16-8,batch=16", "--devices", "4", "--precision", "bf16", "--optimizer", "adamw",
       "--optimizer-parallel", "1:threshold=0"},
      {"llama:layers=2,hidden=16,heads=2,kv_heads=1,ffn=16,vocab=16,seq=4,batch=8", "--devices", "8"},
      {"llama:layers=4,hidden=16,heads=2,kv_heads=1,ffn=16,vocab=16,seq=4,batch=8", "--devices", "8",
       "--stages", "2", "--micro-batches", "4"},
      {"llama:layers=4,hidden=16,heads=2,kv_heads=1,ffn=16,vocab=16,seq=4,batch=8", "--devices", "4",
       "--stages", "2", "--micro-batches", "4", "--schedule", "interleaved:2"},
      {"resnet18:image=32,width=4,batch=8", "--devices", "4"}};
  unsigned k = 0;
  for (const Words& how : cases)
    for (const char* file : {"s.json", "s.ckpt"}) {
      if (!testing::is_asked(k++, 2)) continue;
      SCOPED_TRACE(fmt::format("{} {}", join(how, " "), file));
      const testing::CommandOutcome first =
          testing::outcome_of(with({"plan"}, with(how, {"-o", "p.json", "--save-strategy", file})));
      ASSERT_EQ(first.status, 0) << first.err;
      EXPECT_EQ(first.err.find("--save-strategy"), first.err.npos) << first.err;
      Words again = how;
      if (const auto search = std::ranges::find(again, "--search"); search != again.end())
        again.erase(search, search + 2);
      const testing::CommandOutcome second = testing::outcome_of(
          with({"plan"}, with(again, {"--strategy", file, "-o", "q.json", "--save-strategy", "again.json"})));
      ASSERT_EQ(second.status, 0) << second.err;
      const Plan p = load_plan("p.json"), q = load_plan("q.json");
      EXPECT_EQ(strategies_in(p), strategies_in(q));
      if (is_whole(p)) continue;  // over no axis, and so over any mesh
      for (std::size_t s = 0; s < p.stages.size(); ++s) EXPECT_EQ(p.stages[s].meshes, q.stages[s].meshes);
      EXPECT_EQ(to_bytes(load_strategies(file), false), to_bytes(load_strategies("again.json"), false));
    }
}

TEST_F(Strategies, that_name_a_part_leave_the_rest_to_the_search) {
  write_bytes("s.json",
              R"({"parallel_strategy_item": {"matmul2": {"parallel_strategy": [[1, 2], [2, 2]]}}})");
  for (const char* mode : {"auto_parallel", "semi_auto_parallel"}) {
    const testing::CommandOutcome o = testing::outcome_of(
        {"plan", chain, "--devices", "4", "--parallel", mode, "--strategy", "s.json", "-o", "p.json"});
    ASSERT_EQ(o.status, 0) << o.err;
    const Plan plan = load_plan("p.json");
    for (const PlannedOperator& op : plan.stages[0].operators) {
      EXPECT_TRUE(op.is_fixed || op.name != "matmul2");
      if (op.name == "matmul2") {
        EXPECT_EQ(op.in, (std::vector<std::vector<std::int64_t>>{{1, 2}, {2, 2}}));
      }
    }
  }
}

TEST_F(Strategies, of_training_are_those_of_its_plan) {
  const Words how{"ffn:widths=16-16-8,batch=16", "--devices", "4"};
  ASSERT_EQ(testing::outcome_of(with({"plan"}, with(how, {"--save-strategy", "p.ckpt"}))).status, 0);
  const testing::CommandOutcome trained =
      testing::outcome_of(with({"train"}, with(how, {"--steps", "1", "--save-strategy", "t.ckpt"})));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(read_bytes("t.ckpt"), read_bytes("p.ckpt"));
  const auto losses = [&](const Words& more) {
    const testing::CommandOutcome o =
        testing::outcome_of(with({"train"}, with(how, with({"--steps", "2", "--json"}, more))));
    return o.out.substr(0, o.out.find("{\"summary\""));
  };
  EXPECT_EQ(losses({"--strategy", "t.ckpt"}), losses({}));
}

TEST_F(Strategies, are_named_by_configuration_files) {
  write_bytes("s.json",
              R"({"parallel_strategy_item": {"matmul2": {"parallel_strategy": [[1, 2], [2, 2]]}}})");
  const auto of = [](const std::string& verb, const std::string& yaml, const Words& more = {}) {
    write_bytes("c.yaml", yaml);
    std::filesystem::remove("out.ckpt");
    return testing::outcome_of(with({verb, chain, "--devices", "4", "--config", "c.yaml"}, more));
  };
  const std::string both =
      "parallel: {parallel_mode: 2, strategy_ckpt_config: {load_file: s.json, save_file: out.ckpt}}";
  EXPECT_EQ(of("plan", both).status, 0);
  bool is_there = false;
  for (const FileOperator& op : load_strategies("out.ckpt").operators)
    is_there = is_there ||
               (op.name == "matmul2" && op.parts == std::vector<std::vector<std::int64_t>>{{1, 2}, {2, 2}});
  EXPECT_TRUE(is_there);
  EXPECT_NE(of("estimate", both).out.find("((1,2),(2,2))"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists("out.ckpt"));
  EXPECT_EQ(
      of("plan", "parallel: {strategy_ckpt_load_file: '', strategy_ckpt_config: {save_file: ''}}").status, 0);
  EXPECT_EQ(
      of("plan", "parallel: {strategy_ckpt_load_file: a.json, strategy_ckpt_config: {load_file: b.json}}")
          .err,
      "shardwright: config c.yaml: parallel.strategy_ckpt_load_file is a.json but "
      "parallel.strategy_ckpt_config.load_file is b.json; they should say the same\n");
  EXPECT_NE(of("plan", "parallel: {parallel_mode: 0, strategy_ckpt_load_file: s.json}")
                .err.find("parallel.strategy_ckpt_load_file has no effect: the mode is data_parallel"),
            std::string::npos);
  EXPECT_EQ(
      of("plan", both, {"--search", "auto"}).err,
      "shardwright: config c.yaml: parallel.strategy_ckpt_config.load_file (--strategy) s.json fixes single "
      "operators, which search auto cannot keep; use --search recursive\n");
}

TEST_F(Strategies, of_a_saved_plan_are_written_too) {
  ASSERT_EQ(
      testing::outcome_of({"plan", chain, "--devices", "4", "-o", "p.json", "--save-strategy", "a.json"})
          .status,
      0);
  ASSERT_EQ(testing::outcome_of({"plan", chain, "--plan", "p.json", "--save-strategy", "b.json"}).status, 0);
  EXPECT_EQ(read_bytes("a.json"), read_bytes("b.json"));
}

TEST_F(Strategies, that_say_less_than_the_plan_are_told) {
  write_bytes("a.json", R"({"matmul1": {"in": [[1, 4], [4, 1]], "out": [[4, 1]]}})");
  const testing::CommandOutcome o = testing::outcome_of(
      {"plan", chain, "--devices", "4", "--annotate", "a.json", "--save-strategy", "s.json"});
  EXPECT_EQ(o.status, 0);
  EXPECT_NE(o.err.find("--save-strategy s.json: the file does not hold the whole plan; which layout results "
                       "are brought into: 'matmul1'\n"),
            o.err.npos)
      << o.err;
}

TEST_F(Strategies, that_contradict_other_flags_are_told_with_both) {
  write_bytes("s.json",
              R"({"parallel_strategy_item": {"matmul2": {"parallel_strategy": [[1, 2], [2, 2]]}}})");
  write_bytes("t.json",
              R"({"parallel_strategy_item": {"matmul1": {"stage": 0, "parallel_strategy": [[2, 1], [1, 1]]},
      "matmul2": {"stage": 1, "parallel_strategy": [[2, 1], [1, 1]]}}})");
  write_bytes("a.json", R"({"matmul2": {"in": [[2, 1], [1, 2]]}})");
  write_bytes("b.json",
              R"({"matmul*": {"device_matrix": [2, 2], "names": ["x", "y"], "in": [["x", "None"]]}})");
  write_bytes("c.json", R"({"matmul2": {"stage": 0}, "matmul1": {"stage": 0}, "matmul3": {"stage": 1}})");
  write_bytes("d.json", R"({"matmul2": {"in": [[1, 2], [2, 2]]}})");
  ASSERT_EQ(testing::outcome_of({"plan", chain, "--devices", "4", "-o", "p.json"}).status, 0);
  const std::vector<std::pair<Words, std::string>> cases{
      {{"--strategy", "s.json", "--set", "dp=4"},
       "--strategy s.json and --set dp=4 exclude each other: the one fixes single operators, the other how "
       "everything is split"},
      {{"--strategy", "s.json", "--fix", "dp=2", "--devices", "4"},
       "--strategy s.json and --fix dp=2 exclude each other: the one fixes single operators, the other how "
       "everything is split"},
      {{"--strategy", "s.json", "--search", "auto", "--devices", "4"},
       "--strategy s.json fixes single operators, which search auto cannot keep; use --search recursive"},
      {{"--strategy", "s.json", "--parallel", "data_parallel", "--devices", "4"},
       "--strategy s.json and --parallel data_parallel exclude each other; use semi_auto_parallel"},
      {{"--strategy", "s.json", "--annotate", "a.json", "--devices", "4"},
       "--annotate a.json and --strategy s.json contradict each other: 'matmul2' is (2, 1) in the one and "
       "(1, 2) in the other"},
      {{"--strategy", "s.json", "--annotate", "b.json", "--devices", "4"},
       "--annotate b.json and --strategy s.json contradict each other: 'matmul2' is (2, 1) in the one and "
       "(1, 2) in the other"},
      {{"--strategy", "t.json", "--annotate", "c.json", "--devices", "4"},
       "--annotate c.json and --strategy t.json contradict each other: 'matmul2' is in stage 0 in the one "
       "and in stage 1 in "
       "the other"},
      {{"--strategy", "t.json", "--stages", "4", "--devices", "8"},
       "--strategy t.json has 2 stages but --stages says 4"},
      {{"--strategy", "s.json", "--plan", "p.json"},
       "--strategy: the plan p.json has decided it; plan again, with -o"},
      {{"--strategy", "s.json", "--devices", "2"},
       "s.json: matmul2: strategy ((1, 2), (2, 2)) needs 4 devices but there are 2"},
      {{"--strategy", "t.json", "--devices", "3"}, "t.json: its 2 stages cannot share 3 devices evenly"},
      {{"--strategy", "t.json", "--devices", "4", "--global-batch", "15"},
       fmt::format(
           "t.json has 2 stages: {}: a batch of 15 cannot be cut into 2 micro-batches; choose another "
           "number of them, or a --global-batch that is a multiple of 2",
           chain)},
      {{"--strategy", "s.json", "--strategy", "t.json"},
       "--strategy s.json and --strategy t.json are the same flag with two values; give one"},
      {{"--strategy", "none.json"}, "none.json: cannot be read: No such file or directory"},
      {{"--strategy", "."}, ".: cannot be read: Is a directory"},
      {{"--save-strategy", "none/s.json"}, "none/s.json: cannot be written: No such file or directory"},
      {{"--save-strategy", "x.json", "-o", "x.json"}, "-o x.json and --save-strategy x.json name one file"},
      {{"--save-strategy", "x.json", "--over", "2,4"},
       "--save-strategy: --over makes a plan for each number of devices; --objective price or devices "
       "chooses one"}};
  for (const auto& [flags, error] : cases) {
    const testing::CommandOutcome o = testing::outcome_of(with({"plan", chain}, flags));
    EXPECT_EQ(o.err, "shardwright: " + error + "\n");
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.out, "");
  }
  EXPECT_EQ(
      testing::outcome_of({"plan", chain, "--devices", "4", "--strategy", "s.json", "--annotate", "d.json"})
          .status,
      0);
}

TEST_F(Strategies, leave_the_optimizers_shards_to_its_flag) {
  const Words how{"ffn:widths=16-16-8,batch=64", "--devices", "4", "--search", "propagation"};
  write_bytes("a.json",
              R"({"dense1.matmul": {"in": [[2, 1], [1, 2]]}, "dense2.matmul": {"in": [[4, 1], [1, 1]]}})");
  const auto parameters = [](const char* path) {
    std::map<std::string, FileParameter> out;
    for (const FileParameter& p : load_strategies(path).parameters) out[p.name] = p;
    return out;
  };
  const Words third{"--optimizer", "adam", "--optimizer-parallel", "3:threshold=0"};
  ASSERT_EQ(testing::outcome_of(
                with({"plan"}, with(how, with({"--annotate", "a.json", "--save-strategy", "s.json"}, third))))
                .status,
            0);
  const auto first = parameters("s.json"), second = [&] {
    EXPECT_EQ(
        testing::outcome_of(with({"plan"}, with(how, {"--strategy", "s.json", "--save-strategy", "t.json"})))
            .status,
        0);
    return parameters("t.json");
  }();
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first.at("dense2.weight").optimizer_shards, 4);
  EXPECT_EQ(first.at("dense2.weight").layout.parts(), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(first.at("dense1.weight").optimizer_shards, 2);
  EXPECT_EQ(first.at("dense1.weight").layout.parts(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_NE(read_bytes("s.json").find(R"("opt_weight_shard_step": 2)"), std::string::npos);
  for (const auto& [name, p] : second) {
    EXPECT_EQ(p.optimizer_shards, 1) << name;
    EXPECT_EQ(p.layout, first.at(name).layout) << name;
  }
}

TEST_F(Strategies, are_written_to_a_file_of_their_own) {
  std::filesystem::create_directory("folder");
  std::filesystem::create_symlink("x.json", "link.json");
  write_bytes("c.yaml", "parallel: {strategy_ckpt_save_file: x.json}");
  const std::vector<std::pair<Words, std::string>> cases{
      {{"plan", chain, "--save-strategy", "x.json", "--html", "x.json"},
       "--html x.json and --save-strategy x.json name one file"},
      {{"plan", chain, "--save-strategy", "x.json", "-o", "./x.json"},
       "-o ./x.json and --save-strategy x.json name one file"},
      {{"plan", chain, "-o", "link.json", "--html", "folder/../x.json"},
       "-o link.json and --html folder/../x.json name one file"},
      {{"plan", chain, "-o", "x.json", "--config", "c.yaml"},
       "-o x.json and config c.yaml: parallel.strategy_ckpt_save_file (--save-strategy) x.json name one "
       "file"},
      {{"train", chain, "--save-strategy", "t.json", "--trace", std::filesystem::absolute("t.json").string()},
       fmt::format("--trace {} and --save-strategy t.json name one file",
                   std::filesystem::absolute("t.json").string())}};
  for (const auto& [words, error] : cases) {
    const testing::CommandOutcome o = testing::outcome_of(words);
    EXPECT_EQ(o.err, "shardwright: " + error + "\n");
    EXPECT_EQ(o.status, 2);
  }
  for (const char* file : {"x.json", "t.json"}) EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Strategies, by_other_axes_contradict_annotations_even_where_parts_are_the_same) {
  const std::string both =
      R"({"dev_matrix": [2, 2], "alias_name": ["dp", "sp"], "tensor_map": [[0, 1], [-1]]})";
  write_bytes("s.json", fmt::format(R"({{"parallel_layout_value_item": {{"matmul2": {{"0": {0}, "1":
      {{"dev_matrix": [2, 2], "alias_name": ["dp", "sp"], "tensor_map": [[-1], [-1]]}}}}}}}})",
                                    both));
  const auto annotated = [](const std::string& matrix, const std::string& in) {
    write_bytes("a.json", fmt::format(R"({{"matmul2": {{{}, "in": {}}}}})", matrix, in));
    return testing::outcome_of(
        {"plan", chain, "--devices", "4", "--strategy", "s.json", "--annotate", "a.json"});
  };
  const std::string matrix = R"("device_matrix": [2, 2], "names": ["dp", "sp"])";
  EXPECT_EQ(
      annotated(matrix, R"([[["dp", "sp"], "None"], ["None", "None"]])").err,
      "shardwright: --annotate a.json and --strategy s.json contradict each other: 'matmul2' is "
      "((dp, sp), None) over mesh [dp=2, sp=2] in the one and ((sp, dp), None) over mesh [dp=2, sp=2] in "
      "the other\n");
  EXPECT_EQ(annotated(matrix, R"([[["sp", "dp"], "None"], ["None", "None"]])").status, 0);
  EXPECT_EQ(annotated(R"("device_matrix": [1, 2, 2], "names": ["one", "a", "b"])",
                      R"([[["b", "one", "a"], "None"], ["None", "None"]])")
                .status,
            0);  // by other names
  EXPECT_EQ(annotated(matrix, R"([["zz", "None"], ["None", "None"]])").err,
            "shardwright: --annotate a.json: matmul2: axis 'zz' is not in mesh [dp=2, sp=2]\n");
}

}  // namespace
}  // namespace shardwright
