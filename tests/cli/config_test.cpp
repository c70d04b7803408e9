#include "shardwright/cli/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "shardwright/cli/config_file.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

std::string file_of(const std::string& yaml) {
  const std::string path = scratch_folder() + "/c.yaml";
  std::ofstream(path) << yaml;
  return path;
}

Config config(const std::string& yaml) { return load_config(file_of(yaml)); }

struct BatchCase {
  bool has_pipeline, is_full_batch;
  std::int64_t want;
};

// Seed 003's table, with factors that are all different primes: 2 batch_size, 3 data_parallel, 5
// micro_batch_interleave_num, 7 gradient_accumulation_steps, 11 micro_batch_num, 13 devices.
TEST(Config, global_batch_is_that_of_the_table) {
  for (const BatchCase& c :
       {BatchCase{false, false, 2 * 13 * 5 * 7}, BatchCase{false, true, 2 * 3 * 5 * 7},
        BatchCase{true, false, 2 * 13 * 5 * 11}, BatchCase{true, true, 2 * 3 * 5 * 11}}) {
    const Config read = config(fmt::format(R"(
use_parallel: True
parallel: {{parallel_mode: 2, full_batch: {}}}
parallel_config: {{data_parallel: 3, model_parallel: 4, pipeline_stage: {}, micro_batch_num: 11}}
micro_batch_interleave_num: 5
runner_config: {{batch_size: 2, gradient_accumulation_steps: 7}}
)",
                                           c.is_full_batch ? "True" : "False", c.has_pipeline ? 2 : 1));
    EXPECT_EQ(global_batch(read, 13), c.want) << c.has_pipeline << c.is_full_batch;
  }
}

TEST(Config, global_batch_needs_nothing_but_a_batch_size) {
  EXPECT_EQ(global_batch(config("use_parallel: True\n"), 8), std::nullopt);
  EXPECT_EQ(global_batch(config("runner_config: {batch_size: 4}\n"), 8), 32);
  EXPECT_EQ(global_batch(config("batch_size: 4\n"), 8), 32);
  EXPECT_EQ(global_batch(config("train_dataset: {batch_size: 6}\n"), 8), 48);
  EXPECT_EQ(global_batch(config("train_dataset: {batch_size: 6}\nrunner_config: {batch_size: 4}\n"), 8), 32);
  EXPECT_EQ(
      global_batch(config("runner_config: {batch_size: 4}\nparallel: {dataset_strategy: full_batch}\n"), 8),
      4);
}

TEST(Config, of_one_device_has_no_pipeline_and_no_full_batch) {
  const Config read = config(R"(
use_parallel: False
parallel: {parallel_mode: 2, full_batch: True, auto_pipeline: True}
parallel_config: {data_parallel: 8, pipeline_stage: 4, micro_batch_num: 16}
runner_config: {batch_size: 2, gradient_accumulation_steps: 3}
)");
  EXPECT_EQ(read.mode, Parallel::stand_alone);
  EXPECT_EQ(global_batch(read, 1), 6);
  EXPECT_EQ(read.inactive, std::vector<std::string>{});
  EXPECT_EQ(read.accumulation, 3);
}

TEST(Config, modes_are_numbers_or_names) {
  const std::vector<std::pair<const char*, Parallel>> cases{
      {"0", Parallel::data_parallel},
      {"1", Parallel::semi_auto_parallel},
      {"2", Parallel::auto_parallel},
      {"\"STAND_ALONE\"", Parallel::stand_alone},
      {"DATA_PARALLEL", Parallel::data_parallel},
      {"semi_auto_parallel", Parallel::semi_auto_parallel},
      {"auto_parallel", Parallel::auto_parallel}};
  for (const auto& [text, mode] : cases)
    EXPECT_EQ(config(fmt::format("parallel: {{parallel_mode: {}}}\n", text)).mode, mode) << text;
}

Arguments given(const std::string& yaml, std::map<std::string, std::string> flags,
                const std::string& verb = "plan") {
  flags["--config"] = file_of(yaml);
  Arguments out;
  out.words = {verb};
  out.flags = std::move(flags);
  out = with_config(std::move(out));
  out.flags.erase("--config");
  return out;
}

const char* const all = R"(
use_parallel: True
parallel:
  parallel_mode: 2
  search_mode: sharding_propagation
  fully_use_devices: True
  elementwise_op_strategy_follow: False
  dataset_strategy: [[4, 1], [4]]
  enable_parallel_optimizer: True
  parallel_optimizer_config: {optimizer_level: level3}
runner_config: {batch_size: 2, epochs: 3}
)";

using Values = std::map<std::string, std::string>;

TEST(Config, stands_for_flags) {
  EXPECT_EQ(given(all, {{"--devices", "4"}}).flags, (Values{{"--devices", "4"},
                                                            {"--parallel", "auto_parallel"},
                                                            {"--search", "propagation"},
                                                            {"--fully-use-devices", "1"},
                                                            {"--elementwise-follow", "0"},
                                                            {"--dataset-strategy", "((4, 1), (4,))"},
                                                            {"--optimizer-parallel", "3"},
                                                            {"--global-batch", "8"}}));
}

TEST(Config, hands_on_settings_that_the_search_heeds) {
  const char* const yaml =
      "parallel: {parallel_mode: 2, search_mode: recursive_programming}\nparallel_config: {mem_coeff: 4.5}\n";
  EXPECT_EQ(given(yaml, {{"--devices", "4"}}).flags, (Values{{"--devices", "4"},
                                                             {"--parallel", "auto_parallel"},
                                                             {"--search", "recursive"},
                                                             {"--mem-coeff", "4.5"}}));
  // Another search has no use for it, which is told and no error.
  const Arguments other = given(yaml, {{"--devices", "4"}, {"--search", "propagation"}});
  EXPECT_FALSE(other.has("--mem-coeff"));
  ASSERT_EQ(other.notices.size(), 1U);
  EXPECT_TRUE(other.notices[0].ends_with(": mem_coeff is no setting of search propagation"))
      << other.notices[0];
}

TEST(Config, is_weaker_than_flags) {
  const Values flags{{"--devices", "4"},
                     {"--parallel", "auto_parallel"},
                     {"--search", "propagation"},
                     {"--fully-use-devices", "0"},
                     {"--elementwise-follow", "1"},
                     {"--dataset-strategy", "full_batch"},
                     {"--optimizer-parallel", "0"},
                     {"--global-batch", "64"}};
  EXPECT_EQ(given(all, flags).flags, flags);
  // In a mode that does not search, what the file says of a search has no use.
  EXPECT_EQ(given(all, {{"--devices", "4"}, {"--parallel", "data_parallel"}}).flags,
            (Values{{"--devices", "4"},
                    {"--parallel", "data_parallel"},
                    {"--dataset-strategy", "((4, 1), (4,))"},
                    {"--optimizer-parallel", "3"},
                    {"--global-batch", "8"}}));
}

TEST(Config, epochs_are_of_training_and_count_where_no_steps_do) {
  const auto epochs = [](Values flags) { return given(all, std::move(flags), "train").text("--epochs"); };
  EXPECT_EQ(given(all, {{"--devices", "4"}}).text("--epochs"), "");
  EXPECT_EQ(epochs({{"--devices", "4"}}), "3");
  EXPECT_EQ(epochs({{"--devices", "4"}, {"--data", "d"}}), "3");
  EXPECT_EQ(epochs({{"--devices", "4"}, {"--data", "d"}, {"--steps", "2"}}), "");
  EXPECT_EQ(epochs({{"--devices", "4"}, {"--data", "d"}, {"--epochs", "1"}}), "1");
}

/// Each of the two keys counts where no flag says it.
TEST(Config, a_flag_of_the_pipeline_leaves_the_other_key) {
  const char* const yaml =
      "parallel: {parallel_mode: 2}\nparallel_config: {pipeline_stage: 2, micro_batch_num: 8}\n";
  EXPECT_EQ(given(yaml, {{"--devices", "4"}, {"--micro-batches", "4"}}).text("--stages"), "2");
  EXPECT_EQ(given(yaml, {{"--devices", "4"}, {"--stages", "4"}}).text("--micro-batches"), "8");
}

TEST(Config, says_how_many_devices_where_no_flag_does) {
  const char* const yaml = "parallel: {parallel_mode: 2, device_num: 8}\nrunner_config: {batch_size: 1}\n";
  EXPECT_EQ(given(yaml, {}).text("--global-batch"), "8");
  EXPECT_EQ(given(yaml, {{"--devices", "2"}}).text("--global-batch"), "2");
  EXPECT_EQ(given(yaml, {{"--cluster", "a100-80g:4"}}).text("--global-batch"), "4");
}

TEST(Config, tells_what_is_not_active_yet) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases{
      {"parallel: {auto_pipeline: True}", {"auto_pipeline"}},
      {"parallel: {auto_pipeline: False}", {}},
      {"parallel_config: {pipeline_stage: 2, micro_batch_num: 4}", {}},
      {"parallel_config: {pipeline_stage: 1, micro_batch_num: 4, vocab_emb_dp: True}", {}},
      {"gradient_accumulation_steps: 2", {}},
      {"parallel_config: {gradient_accumulation_steps: 2}", {}},
      {"micro_batch_interleave_num: 2", {"micro_batch_interleave_num"}},
      {"recompute_config: {recompute: True, select_recompute: False}", {}},
      {"recompute_config: {select_recompute: [2, 2]}", {"select_recompute"}},
      {"parallel: {comm_fusion: {openstate: True}}", {}},
      {"parallel: {strategy_ckpt_save_file: s.ckpt}", {"strategy_ckpt_save_file"}},
      {"parallel: {strategy_ckpt_save_file: ''}", {}},
      {"parallel: {strategy_ckpt_config: {load_file: s.json, only_trainable_params: False}}", {"load_file"}},
      // A search finds what else would have to be annotated.
      {"parallel: {parallel_mode: 2}\nparallel_config: {model_parallel: 4, use_seq_parallel: True}", {}},
      {"parallel: {parallel_mode: 1}\nparallel_config: {model_parallel: 4, use_seq_parallel: True}",
       {"model_parallel", "use_seq_parallel"}},
  };
  for (const auto& [yaml, inactive] : cases) EXPECT_EQ(config(yaml).inactive, inactive) << yaml;
}

TEST(Config, which_collectives_run_as_one) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"{}", ""},
      {"{comm_fusion: {openstate: True}}", "auto"},
      {"{comm_fusion: {openstate: False, allreduce: {mode: size, config: 3}}}", "none"},
      {"{comm_fusion: {allreduce: {mode: auto, config: None}}}", "auto"},
      {"{comm_fusion: {allreduce: {mode: size, config: 32}, allgather: {mode: size, config: 16}}}",
       "all_reduce=size:32;all_gather=size:16;reduce_scatter=auto"},
      {"{comm_fusion: {allreduce: {mode: index, config: [1, 3]}, reducescatter: {mode: size, config: 0}}}",
       "all_reduce=index:1,3;all_gather=auto;reduce_scatter=size:0"},
      {"{all_reduce_fusion_config: [20, 35]}", "all_reduce=index:20,35;all_gather=auto;reduce_scatter=auto"}};
  for (const auto& [parallel, fusion] : cases)
    EXPECT_EQ(config(fmt::format("parallel: {}\n", parallel)).comm_fusion, fusion) << parallel;
  EXPECT_EQ(given("parallel: {parallel_mode: 0, all_reduce_fusion_config: [1]}", {{"--devices", "2"}})
                .text("--comm-fusion"),
            "all_reduce=index:1;all_gather=auto;reduce_scatter=auto");
}

TEST(Config, recompute_and_its_options) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"recompute_config: {recompute: False}", ""},
      {"recompute_config: {recompute: True, select_recompute: True}", "full"},
      {"parallel_config: {recompute: True}", "full"},
      {"recompute_config: {recompute: True, mp_comm_recompute: True}", "full"},
      {"recompute_config: {recompute: True, mp_comm_recompute: False, recompute_slice_activation: True}",
       "full:communication=false,shard_kept=true"},
      {"recompute_config: {select_recompute: True}", "selected"},
      {"recompute_config: {select_recompute: True, select_comm_recompute: True}",
       "selected:communication=true"},
      {"recompute_config: {recompute: [2, 2], mp_comm_recompute: False}", ""},
  };
  for (const auto& [yaml, recompute] : cases) EXPECT_EQ(config(yaml).recompute, recompute) << yaml;
}

TEST(Config, levels_of_optimizer_parallelism) {
  const auto level = [](const char* parallel, const char* other = "") {
    return config(fmt::format("parallel: {}\n{}\n", parallel, other)).optimizer_parallel;
  };
  EXPECT_EQ(level("{enable_parallel_optimizer: False}"), 0);
  EXPECT_EQ(level("{enable_parallel_optimizer: True}"), 1);
  EXPECT_EQ(level("{enable_parallel_optimizer: True, parallel_optimizer_config: "
                  "{gradient_accumulation_shard: True}}"),
            2);
  EXPECT_EQ(level("{enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level2}}"),
            2);
  EXPECT_EQ(level("{}", "parallel_config: {optimizer_shard: True}"), 1);
  EXPECT_EQ(level("{enable_parallel_optimizer: False}", "parallel_config: {optimizer_shard: True}"), 0);
}

// The threshold of these files is in KiB; -1 is what there is without the key.
TEST(Config, threshold_and_group_of_optimizer_parallelism) {
  const auto flag = [](const char* settings) {
    return given(fmt::format("parallel: {{parallel_mode: 0, enable_parallel_optimizer: True, "
                             "parallel_optimizer_config: {}}}\n",
                             settings),
                 {{"--devices", "8"}})
        .text("--optimizer-parallel");
  };
  EXPECT_EQ(flag("{parallel_optimizer_threshold: 64}"), "1:threshold=65536");
  EXPECT_EQ(flag("{parallel_optimizer_threshold: 0, optimizer_weight_shard_size: 2}"),
            "1:threshold=0,group=2");
  EXPECT_EQ(flag("{optimizer_level: level3, optimizer_weight_shard_size: 4}"), "3:group=4");
  EXPECT_EQ(flag("{optimizer_weight_shard_size: -1}"), "1");
  EXPECT_THROW(flag("{parallel_optimizer_threshold: -2}"), Error);
  EXPECT_THROW(flag("{optimizer_weight_shard_size: 0}"), Error);
}

TEST(Config, of_the_examples_is_read_whole) {
  const Config c = load_config("examples/config/llama2_7b_auto_parallel.yaml");
  EXPECT_EQ(c.mode, Parallel::auto_parallel);
  EXPECT_EQ(c.search, "recursive_programming");
  EXPECT_EQ(c.mem_coeff, 0.1);
  EXPECT_EQ(global_batch(c, 8), 32);
}

}  // namespace
}  // namespace shardwright
