// Whatever the door, what is fixed of a plan arrives as the same constraints, with one text.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "shardwright/annotations/annotations.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/config.h"
#include "shardwright/cli/set_flags.h"
#include "shardwright/plan/decided.h"
#include "shardwright/search/planning/search_for.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Values = std::map<std::string, std::string>;

std::string file_of(const std::string& name, const std::string& text) {
  const std::string path = scratch_folder() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

/// As a command line is read.
PlanRequest request_by(Values flags) {
  Arguments arguments;
  arguments.words = {"plan"};
  arguments.flags = std::move(flags);
  arguments.flags.emplace("--devices", "8");
  if (arguments.has("--set")) arguments = with_set(std::move(arguments));
  if (arguments.has("--config")) arguments = with_config(std::move(arguments));
  return asked_of(arguments);
}

std::string text_by(const Values& flags) { return to_text(request_by(flags).constraints); }

const std::string wish =
    "pp=2,micro_batches=4,zero=2,zero_threshold=4096,zero_group=2,recompute=full,recompute_communication=0,"
    "schedule=gpipe,comm_fusion=all_reduce=size:16;all_gather=auto;reduce_scatter=none";

/// The flag that says a part of a plan, its value, and the same in words.
struct Door {
  const char* flag;
  const char* value;
  const char* words;
};
const std::vector<Door> doors{
    {"--stages", "2", "pp=2"},
    {"--micro-batches", "4", "micro_batches=4"},
    {"--micro-batch-interleave", "2", "micro_batch_interleave=2"},
    {"--schedule", "interleaved:2", "schedule=interleaved:2"},
    {"--overlap-tensor", "", "overlap_tensor=1"},
    {"--optimizer-parallel", "0", "zero=0"},
    {"--optimizer-parallel", "2:threshold=4KiB,group=2", "zero=2,zero_threshold=4096,zero_group=2"},
    {"--recompute", "none", "recompute=none"},
    {"--recompute", "full:communication=false,shard_kept=true",
     "recompute=full,recompute_communication=0,recompute_shard_kept=1"},
    {"--recompute", "selected+dense1,dense2", "recompute=selected,dense1=recompute,dense2=recompute"},
    {"--comm-fusion", "none", "comm_fusion=none"},
    {"--comm-fusion", "index:1,3", "comm_fusion={all_reduce=index:1,3;all_gather=auto;reduce_scatter=auto}"},
    {"--offload", "optimizer:0.5,parameters", "offload={optimizer:0.5,parameters}"},
    {"--offload", "dense1.matmul", "dense1.matmul=host"},
    {"--framework", "megatron", "framework=megatron"},
    {"--dataset-strategy", "full_batch", "dataset=full_batch"},
    {"--dataset-strategy", "((4,1),(4,))", "dataset={in: ((4, 1), (4,))}"}};

TEST(Doors, flags_say_what_fix_and_set_say) {
  for (const Door& door : doors) {
    Values flags{{door.flag, door.value}};
    std::string words = door.words;
    if (flags.contains("--schedule")) flags.emplace("--stages", "2"), words = "pp=2," + words;
    EXPECT_EQ(text_by(flags), words);
    EXPECT_EQ(text_by({{"--fix", words}}), words);
    const bool has_stages = flags.contains("--stages");
    Constraints set = request_by({{"--set", words + (has_stages ? ",dp=4" : ",dp=8")}}).constraints;
    for (const char* word : {"dp", "tp", "sequence_parallel"}) constraint_word(word).open(set);
    if (!has_stages) set.degrees.set("pp", std::nullopt);  // of what is left out there is 1
    EXPECT_EQ(to_text(set), words);
  }
  EXPECT_EQ(text_by({{"--set", "dp=4," + wish}}), "dp=4,tp=1," + wish.substr(0, wish.find(",comm_fusion")) +
                                                      ",sequence_parallel=0" +
                                                      wish.substr(wish.find(",comm_fusion")));
}

/// Every flag that is about a part of a plan stands above, or says all of it.
TEST(Doors, no_flag_of_a_plan_is_left_out) {
  const std::set<std::string> others{"--parallel", "--search", "--set"};
  for (const SettingRow& row : all_settings()) {
    const bool is_of_plan =
        row.part == SettingPart::order || row.part == SettingPart::split || row.part == SettingPart::step;
    const bool is_told = std::ranges::any_of(doors, [&](const Door& d) { return row.flag == d.flag; });
    EXPECT_EQ(is_of_plan && !others.contains(row.flag), is_told) << row.flag;
  }
}

TEST(Doors, a_configuration_says_the_same) {
  const std::string yaml = file_of("c.yaml", R"(
parallel:
  parallel_mode: 2
  enable_parallel_optimizer: True
  parallel_optimizer_config: {optimizer_level: level2, parallel_optimizer_threshold: 4, optimizer_weight_shard_size: 2}
  pipeline_config: {pipeline_scheduler: gpipe}
  comm_fusion: {allreduce: {mode: size, config: 16}, reducescatter: {mode: size, config: 0}}
parallel_config: {pipeline_stage: 2, micro_batch_num: 4}
recompute_config: {recompute: True, mp_comm_recompute: False}
)");
  std::string same = wish;
  same.replace(same.find("reduce_scatter=none"), 19, "reduce_scatter=size:0");
  EXPECT_EQ(text_by({{"--config", yaml}}), same);
}

TEST(Doors, a_saved_plan_says_the_same) {
  Plan plan{.cluster = host_cluster(4),
            .parallel = "auto_parallel",
            .settings = settings_of(parse_constraints({"", wish}))};
  plan.stages = {StagePlan{.meshes = {Mesh{{{"dp", 2}}}}}, StagePlan{.meshes = {Mesh{{{"dp", 2}}}}}};
  const Plan saved = parse_plan(to_json(plan), "test");
  EXPECT_EQ(to_text(request_of(saved).constraints), wish);
  EXPECT_EQ(to_text(constraints_of(saved.settings)), wish);
}

TEST(Doors, annotations_and_strategy_files_say_what_fix_says) {
  const std::string words =
      "dataset={in: ((2, 1), (2,))},dense1.matmul={in: ((2, 1), (1, 4))},"
      "dense2.matmul={in: ((dp, mp), (mp, None)), on: mesh [dp=2, mp=4]},dense3.weight={out: ((4, 1),)},"
      "dense1=stage 0,dense2=stage 1,dense1.weight=fusion 3,dense1=recompute,"
      "dense2=recompute {communication: 0},dense3=keep";
  const std::string file = file_of("a.json", R"({
    "dataset": [[2, 1], [2]],
    "dense1.matmul": {"in": [[2, 1], [1, 4]]},
    "dense2.matmul": {"device_matrix": [2, 4], "names": ["dp", "mp"], "in": [["dp", "mp"], ["mp", "None"]]},
    "dense3.weight": {"out": [[4, 1]]},
    "dense1": {"stage": 0, "recompute": true}, "dense2": {"stage": 1, "recompute": {"communication": false}},
    "dense1.weight": {"comm_fusion": 3}, "dense3": {"recompute": false}})");
  EXPECT_EQ(text_by({{"--annotate", file}}), words);
  EXPECT_EQ(text_by({{"--fix", words}}), words);
  const std::string strategies = file_of("s.json", R"({"current_stage": 0,
    "parallel_strategy_item": {"dense1.matmul": {"stage": 0, "parallel_strategy": [[2, 1], [1, 4]]}},
    "parallel_layout_item": {}, "parallel_layout_value_item": {}})");
  EXPECT_EQ(text_by({{"--strategy", strategies}}), "dense1.matmul={in: ((2, 1), (1, 4))}");
}

/// What one door says and another says otherwise is refused, whichever they are.
TEST(Doors, contradict_each_other_by_name) {
  const auto message = [](const Values& flags) {
    try {
      request_by(flags);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(
      message({{"--comm-fusion", "none"}, {"--fix", "comm_fusion=auto"}}),
      "--fix comm_fusion=auto: comm_fusion=auto is said, but --comm-fusion says comm_fusion=none; leave "
      "one out");
  EXPECT_EQ(message({{"--comm-fusion", "none"}, {"--set", "dp=8,comm_fusion=auto"}}),
            "--comm-fusion none and --set comm_fusion=auto contradict each other; leave one out");
  EXPECT_EQ(message({{"--framework", "megatron"}, {"--set", "dp=8,framework=ours"}}),
            "--framework megatron and --set framework=ours contradict each other; leave one out");
  EXPECT_EQ(message({{"--recompute", "dense1"}, {"--fix", "dense1=keep"}}),
            "--fix dense1=keep: dense1=keep is said, but --recompute says dense1=recompute; leave one out");
  const std::string file =
      file_of("a.json", R"({"dense1": {"recompute": true}, "dense2": {"recompute": true}})");
  EXPECT_EQ(message({{"--annotate", file}, {"--fix", "dense2=keep"}}),
            "--fix dense2=keep: dense2=keep is said, but --annotate " + file +
                " says dense2=recompute; leave one out");
  EXPECT_EQ(message({{"--micro-batches", "2"}, {"--optimizer-parallel", "1"}, {"--fix", "zero=2"}}),
            "--fix zero=2: zero=2 is said, but --optimizer-parallel says zero=1; leave one out");
}

}  // namespace
}  // namespace shardwright
