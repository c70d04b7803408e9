#include "shardwright/cli/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "shardwright/cli/asked.h"
#include "shardwright/exchange/mindformers/config_file.h"
#include "shardwright/exchange/mindformers/config_keys.h"
#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/search_for.h"
#include "shardwright/search/planning/settings.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

std::string file_of(const std::string& yaml) {
  const std::string path = scratch_folder() + "/c.yaml";
  std::ofstream(path) << yaml;
  return path;
}

Config config(const std::string& yaml) { return load_config(file_of(yaml)); }

/// What a file says of the setting of `flag`, as the flag takes it.
std::string said(const std::string& yaml, const std::string& flag) {
  for (const Config::Said& s : config(yaml).said)
    if (s.flag == flag) return s.text;
  return "";
}
std::optional<std::int64_t> batch_of(const std::string& yaml, std::int64_t devices) {
  return global_batch(config(yaml).batch, devices);
}

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
    const std::string yaml = fmt::format(R"(
use_parallel: True
parallel: {{parallel_mode: 2, full_batch: {}}}
parallel_config: {{data_parallel: 3, model_parallel: 4, pipeline_stage: {}, micro_batch_num: 11}}
micro_batch_interleave_num: 5
runner_config: {{batch_size: 2, gradient_accumulation_steps: 7}}
)",
                                         c.is_full_batch ? "True" : "False", c.has_pipeline ? 2 : 1);
    EXPECT_EQ(batch_of(yaml, 13), c.want) << c.has_pipeline << c.is_full_batch;
  }
}

TEST(Config, global_batch_needs_nothing_but_a_batch_size) {
  EXPECT_EQ(batch_of("use_parallel: True\n", 8), std::nullopt);
  EXPECT_EQ(batch_of("runner_config: {batch_size: 4}\n", 8), 32);
  EXPECT_EQ(batch_of("batch_size: 4\n", 8), 32);
  EXPECT_EQ(batch_of("train_dataset: {batch_size: 6}\n", 8), 48);
  EXPECT_EQ(batch_of("train_dataset: {batch_size: 6}\nrunner_config: {batch_size: 4}\n", 8), 32);
  EXPECT_EQ(batch_of("runner_config: {batch_size: 4}\nparallel: {dataset_strategy: full_batch}\n", 8), 4);
}

TEST(Config, of_one_device_has_no_pipeline_and_no_full_batch) {
  const char* const yaml = R"(
use_parallel: False
parallel: {parallel_mode: 2, full_batch: True, auto_pipeline: True}
parallel_config: {data_parallel: 8, pipeline_stage: 4, micro_batch_num: 16}
runner_config: {batch_size: 2, gradient_accumulation_steps: 3}
)";
  EXPECT_EQ(said(yaml, "--parallel"), "stand_alone");
  EXPECT_EQ(said(yaml, "--stages"), "");
  EXPECT_EQ(said(yaml, "--micro-batches"), "3");
  EXPECT_EQ(batch_of(yaml, 1), 6);
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
    EXPECT_EQ(said(fmt::format("parallel: {{parallel_mode: {}}}\n", text), "--parallel"), name_of(mode))
        << text;
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

/// What is asked for, setting by setting as its flag takes it; those of plans, and of searches `told` by hand.
Values asked(const std::string& yaml, Values flags) {
  const Arguments arguments = given(yaml, std::move(flags));
  const PlanRequest request = asked_of(arguments);
  Values out;
  for (const SettingRow& row : all_settings())
    if (arguments.has(row.flag) && row.print && idle_reason(row, request).empty())
      out[row.flag] = row.print(request);
  const SearchOptions& o = request.options;
  if (o.mem_coeff != SearchOptions{}.mem_coeff) out["--mem-coeff"] = fmt::format("{}", o.mem_coeff);
  if (o.fully_use_devices) out["--fully-use-devices"] = "1";
  if (o.elementwise_follow) out["--elementwise-follow"] = "1";
  if (const auto& dataset = request.constraints.dataset)
    out["--dataset-strategy"] = dataset->word.empty() ? to_text(dataset->splits.in) : dataset->word;
  return out;
}

std::vector<std::string> told(const std::string& yaml, Values flags) {
  const Arguments arguments = given(yaml, std::move(flags));
  tell_idle(arguments, asked_of(arguments));
  std::vector<std::string> out;
  for (const std::string& notice : arguments.notices)
    out.push_back(notice.substr(notice.rfind(".yaml: ") + 7));
  return out;
}

TEST(Config, is_asked_for_as_flags_are) {
  EXPECT_EQ(asked(all, {{"--devices", "4"}}), (Values{{"--devices", "4"},
                                                      {"--parallel", "auto_parallel"},
                                                      {"--search", "propagation"},
                                                      {"--fully-use-devices", "1"},
                                                      {"--dataset-strategy", "((4, 1), (4,))"},
                                                      {"--optimizer-parallel", "3"},
                                                      {"--global-batch", "8"}}));
}

TEST(Config, hands_on_settings_that_the_search_heeds) {
  const char* const yaml =
      "parallel: {parallel_mode: 2, search_mode: recursive_programming}\nparallel_config: {mem_coeff: 4.5}\n";
  EXPECT_EQ(asked(yaml, {{"--devices", "4"}}), (Values{{"--devices", "4"},
                                                       {"--parallel", "auto_parallel"},
                                                       {"--search", "recursive"},
                                                       {"--mem-coeff", "4.5"}}));
  EXPECT_EQ(told(yaml, {{"--devices", "4"}}), std::vector<std::string>{});
  // Another search has no use for it, which is told and no error.
  EXPECT_EQ(asked(yaml, {{"--devices", "4"}, {"--search", "propagation"}}).count("--mem-coeff"), 0U);
  EXPECT_EQ(told(yaml, {{"--devices", "4"}, {"--search", "propagation"}}),
            std::vector<std::string>{
                "parallel_config.mem_coeff has no effect: search propagation has no use for it"});
}

TEST(Config, is_weaker_than_flags) {
  const Values flags{{"--devices", "4"},
                     {"--parallel", "auto_parallel"},
                     {"--search", "propagation"},
                     {"--elementwise-follow", "1"},
                     {"--dataset-strategy", "full_batch"},
                     {"--optimizer-parallel", "0"},
                     {"--global-batch", "64"}};
  Values more = flags;
  more["--fully-use-devices"] = "0";
  EXPECT_EQ(asked(all, more), flags);
  // In a mode that does not search, what the file says of a search has no use.
  EXPECT_EQ(asked(all, {{"--devices", "4"}, {"--parallel", "data_parallel"}}),
            (Values{{"--devices", "4"},
                    {"--parallel", "data_parallel"},
                    {"--dataset-strategy", "((4, 1), (4,))"},
                    {"--optimizer-parallel", "3"},
                    {"--global-batch", "8"}}));
}

TEST(Config, an_order_in_stages_has_no_effect_in_one) {
  const char* const yaml =
      "parallel: {pipeline_config: {pipeline_scheduler: gpipe}}\n"
      "parallel_config: {pipeline_stage: 2, micro_batch_num: 4}\n";
  EXPECT_EQ(asked(yaml, {{"--devices", "4"}})["--schedule"], "gpipe");
  EXPECT_EQ(told(yaml, {{"--devices", "4"}, {"--stages", "1"}}),
            std::vector<std::string>{
                "parallel.pipeline_config.pipeline_scheduler has no effect: there is one stage"});
}

/// What is for several devices is left out on one, and that is told.
TEST(Config, of_one_device_splits_nothing) {
  EXPECT_EQ(asked(all, {{"--devices", "1"}}),
            (Values{{"--devices", "1"}, {"--parallel", "auto_parallel"}, {"--global-batch", "2"}}));
  EXPECT_EQ(told(all, {{"--devices", "1"}}),
            (std::vector<std::string>{
                "parallel.search_mode has no effect: there is 1 device",
                "parallel.dataset_strategy has no effect: there is 1 device",
                "parallel.enable_parallel_optimizer (--optimizer-parallel) has no effect: there is 1 device",
                "parallel.fully_use_devices has no effect: there is 1 device",
                "parallel.elementwise_op_strategy_follow has no effect: there is 1 device"}));
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
      {"parallel_config: {pipeline_stage: 2, micro_batch_num: 4}", {}},
      {"parallel_config: {pipeline_stage: 1, vocab_emb_dp: True}", {}},
      {"gradient_accumulation_steps: 2", {}},
      {"parallel_config: {gradient_accumulation_steps: 2}", {}},
      {"micro_batch_interleave_num: 2", {}},
      {"parallel_config: {micro_batch_interleave_num: 1}", {}},
      {"parallel: {force_fp32_communication: True}", {"force_fp32_communication"}},
      {"swap_config: {swap: True}", {"swap_config.swap"}},
      {"parallel: {pipeline_config: {pipeline_interleave: False}}", {}},
      {"parallel: {pipeline_config: {pipeline_scheduler: seqpipe}}", {"pipeline_scheduler seqpipe"}},
      {"parallel: {force_fp32_communication: False, group_ckpt_save_file: g.pb}", {"group_ckpt_save_file"}},
      {"recompute_config: {recompute: True, select_recompute: False}", {}},
      {"recompute_config: {select_recompute: [2, 2]}", {"select_recompute"}},
      {"parallel: {comm_fusion: {openstate: True}}", {}},
      {"parallel: {strategy_ckpt_save_file: s.ckpt}", {}},
      // A search finds what else would have to be annotated.
      {"parallel: {parallel_mode: 2}\nparallel_config: {model_parallel: 4, use_seq_parallel: True}", {}},
      {"parallel: {parallel_mode: 1}\nparallel_config: {model_parallel: 4, use_seq_parallel: True}",
       {"model_parallel", "use_seq_parallel"}},
  };
  for (const auto& [yaml, inactive] : cases) {
    std::vector<std::string> want;
    for (const std::string& key : inactive) want.push_back(key + " is not active yet");
    EXPECT_EQ(config(yaml).notices, want) << yaml;
  }
}

TEST(Config, order_of_micro_batches) {
  const auto schedule = [](const char* stages, const char* settings) {
    return said(fmt::format("parallel: {{pipeline_config: {{{}}}}}\n"
                            "parallel_config: {{pipeline_stage: {}, micro_batch_num: 4}}\n",
                            settings, stages),
                "--schedule");
  };
  EXPECT_EQ(schedule("2", "pipeline_scheduler: gpipe"), "gpipe");
  EXPECT_EQ(schedule("2", "pipeline_interleave: False"), "");
  EXPECT_EQ(schedule("1", "pipeline_scheduler: gpipe"), "");
}

TEST(Config, parts_of_micro_batches) {
  for (const char* yaml : {"micro_batch_interleave_num: 2", "runner_config: {micro_batch_interleave_num: 2}",
                           "parallel_config: {micro_batch_interleave_num: 2}"})
    EXPECT_EQ(said(yaml, "--micro-batch-interleave"), "2") << yaml;
  EXPECT_EQ(said("micro_batch_interleave_num: 1", "--micro-batch-interleave"), "");
}

TEST(Config, chunks_of_stages) {
  const auto yaml = [](int stages, const char* chunks, const char* settings) {
    return fmt::format(
        "parallel: {{pipeline_config: {{{}}}}}\nmodel: {{model_config: {{{}}}}}\n"
        "parallel_config: {{pipeline_stage: {}, micro_batch_num: 4}}\n",
        settings, chunks, stages);
  };
  const std::string on = "pipeline_interleave: True, pipeline_scheduler: gpipe";
  EXPECT_EQ(said(yaml(2, "pp_interleave_num: 3", on.c_str()), "--schedule"), "interleaved:3");
  EXPECT_EQ(said(yaml(2, "pp_interleave_num: 1", on.c_str()), "--schedule"), "gpipe");
  EXPECT_EQ(said(yaml(1, "pp_interleave_num: 3", on.c_str()), "--schedule"), "");
  EXPECT_EQ(said(yaml(2, "pp_interleave_num: 3", "pipeline_scheduler: gpipe"), "--schedule"), "gpipe");
  EXPECT_EQ(config(yaml(2, "pp_interleave_num: 3", on.c_str())).notices, (std::vector<std::string>{}));
  EXPECT_EQ(config(yaml(2, "", "pipeline_interleave: True")).notices,
            (std::vector<std::string>{"pipeline_interleave has no effect: a stage has one chunk; "
                                      "model.model_config.pp_interleave_num or --schedule interleaved:V says "
                                      "how many"}));
  EXPECT_EQ(config(yaml(2, "pp_interleave_num: 2", "")).notices,
            (std::vector<std::string>{
                "model.model_config.pp_interleave_num 2 has no effect: pipeline_interleave is not on"}));
  EXPECT_EQ(config(yaml(1, "pp_interleave_num: 2", "pipeline_interleave: True")).notices.back(),
            "pipeline_interleave has no effect: the file has one stage");
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
    EXPECT_EQ(said(fmt::format("parallel: {}\n", parallel), "--comm-fusion"), fusion) << parallel;
  EXPECT_EQ(given("parallel: {parallel_mode: 0, all_reduce_fusion_config: [1]}", {{"--devices", "2"}})
                .text("--comm-fusion"),
            "all_reduce=index:1;all_gather=auto;reduce_scatter=auto");
}

TEST(Config, recompute_and_its_options) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"recompute_config: {recompute: False}", "none"},
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
  for (const auto& [yaml, recompute] : cases) EXPECT_EQ(said(yaml, "--recompute"), recompute) << yaml;
}

/// A file means what the described system does: what it leaves off stays off, which to other searches is nothing new.
TEST(Config, leaves_off_what_a_search_of_whole_plans_would_choose) {
  const std::string off =
      "parallel: {parallel_mode: 2, enable_parallel_optimizer: False}\nrecompute_config: {recompute: "
      "False}\n";
  const Values flags{{"--devices", "4"}};
  const Values kept = given(off, flags).flags;
  EXPECT_EQ(kept.at("--auto-pipeline") + kept.at("--optimizer-parallel") + kept.at("--recompute"), "00none");
  EXPECT_EQ(fixed_by(asked_of(given(off, flags))).degrees.said("pp"), 1);
  for (const char* other : {"parallel_config: {mem_coeff: 0.1}\n", "parallel_config: {mem_coeff: 2}\n"}) {
    const Values none = given(off + other, flags).flags;
    EXPECT_FALSE(none.contains("--auto-pipeline") || none.contains("--recompute")) << other;
    EXPECT_EQ(search_for(asked_of(given(off + other, flags))).search->name, "recursive");
  }
  EXPECT_FALSE(given(off, {{"--devices", "4"}, {"--search", "recursive"}}).has("--auto-pipeline"));
  const std::string on =
      "parallel: {parallel_mode: 2, auto_pipeline: True}\n"
      "parallel_config: {pipeline_stage: 2, micro_batch_num: 4}\n";
  const Constraints open = fixed_by(asked_of(given(on, flags)));
  EXPECT_FALSE(open.degrees.said("pp"));
  EXPECT_EQ(open.micro_batches, 4);
  Values named = flags;
  named["--search"] = "recursive";
  EXPECT_EQ(told(on, named), std::vector<std::string>{
                                 "parallel.auto_pipeline has no effect: search recursive has no use for it"});
}

/// Flags of their own, --fix and a file fix the same, and the plan that is made has it.
TEST(Config, says_the_same_constraints_as_flags_and_fix) {
  const std::string want = "pp=2,micro_batches=4,zero=1,recompute=full,schedule=gpipe";
  const Values flags{{"--devices", "8"},       {"--stages", "2"},
                     {"--micro-batches", "4"}, {"--optimizer-parallel", "1"},
                     {"--recompute", "full"},  {"--schedule", "gpipe"}};
  EXPECT_EQ(to_text(fixed_by(asked_of(given("{}\n", flags)))), want);
  EXPECT_EQ(to_text(fixed_by(asked_of(given("{}\n", {{"--devices", "8"}, {"--fix", want}})))), want);
  const std::string yaml =
      "parallel: {parallel_mode: 2, enable_parallel_optimizer: True, pipeline_config: {pipeline_scheduler: "
      "gpipe}}\n"
      "parallel_config: {pipeline_stage: 2, micro_batch_num: 4}\nrecompute_config: {recompute: True}\n";
  EXPECT_EQ(to_text(fixed_by(asked_of(given(yaml, {{"--devices", "8"}})))), want);
  PlanRequest asked = asked_of(given("{}\n", flags));
  asked.model = "ffn";
  const Plan plan = make_plan(build_model("ffn").graph, asked);
  EXPECT_EQ(to_text(fixed_by(request_of(plan))), want);
}

TEST(Config, levels_of_optimizer_parallelism) {
  const auto level = [](const char* parallel, const char* other = "") {
    return said(fmt::format("parallel: {}\n{}\n", parallel, other), "--optimizer-parallel");
  };
  EXPECT_EQ(level("{}"), "");
  EXPECT_EQ(level("{enable_parallel_optimizer: False}"), "0");
  EXPECT_EQ(level("{enable_parallel_optimizer: True}"), "1");
  EXPECT_EQ(level("{enable_parallel_optimizer: True, parallel_optimizer_config: "
                  "{gradient_accumulation_shard: True}}"),
            "2");
  EXPECT_EQ(level("{enable_parallel_optimizer: True, parallel_optimizer_config: {optimizer_level: level2}}"),
            "2");
  EXPECT_EQ(level("{}", "parallel_config: {optimizer_shard: True}"), "1");
  EXPECT_EQ(level("{enable_parallel_optimizer: False}", "parallel_config: {optimizer_shard: True}"), "0");
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
  EXPECT_EQ(flag("{parallel_optimizer_threshold: 64}"), "1");
  EXPECT_EQ(flag("{parallel_optimizer_threshold: 0, optimizer_weight_shard_size: 2}"),
            "1:threshold=0,group=2");
  EXPECT_EQ(flag("{optimizer_level: level3, optimizer_weight_shard_size: 4}"), "3:group=4");
  EXPECT_EQ(flag("{optimizer_weight_shard_size: -1}"), "1");
  EXPECT_THROW(flag("{parallel_optimizer_threshold: -2}"), Error);
  EXPECT_THROW(flag("{optimizer_weight_shard_size: 0}"), Error);
}

/// The table of settings names no key that a file may not have.
TEST(Config, keys_of_the_table_are_known) {
  const std::map<std::string, Names> sections{{"parallel", parallel_keys()},
                                              {"parallel_config", parallel_config_keys()},
                                              {"runner_config", runner_keys()}};
  int keys = 0;
  for (const SettingRow& row : all_settings()) {
    const std::string text = row.keys + row.key;
    const std::regex dotted("(parallel|parallel_config|runner_config)[.](\\w+)");
    for (std::sregex_iterator it(text.begin(), text.end(), dotted), end; it != end; ++it, ++keys) {
      const Names& known = sections.at((*it)[1]);
      EXPECT_NE(std::find(known.begin(), known.end(), (*it)[2]), known.end()) << row.flag << " " << (*it)[0];
    }
  }
  EXPECT_GT(keys, 10);
}

/// All that a file says, by flag.
Values all_said(const std::string& yaml) {
  Values out;
  for (const Config::Said& s : config(yaml).said) out[s.flag] = s.text;
  return out;
}

TEST(Config, what_a_run_does_beside_its_steps) {
  EXPECT_EQ(all_said(R"(
seed: 7
output_dir: ./out
load_checkpoint: old/step-00000010
resume_training: True
do_eval: True
eval_step_interval: 50
eval_dataset: {data_loader: {dataset_dir: held_out}}
train_dataset: {data_loader: {type: MindDataset, dataset_dir: digits}}
optimizer: {type: FP32StateAdamWeightDecay, betas: [0.9, 0.95], eps: 1.e-6, weight_decay: 0.1}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-5, lr_end: 1.e-6, warmup_ratio: 0.03, total_steps: -1}
runner_wrapper: {type: MFTrainOneStepCell, use_clip_grad: True, max_grad_norm: 0.5}
callbacks:
  - {type: MFLossMonitor, per_print_times: 5}
  - {type: CheckpointMonitor, save_checkpoint_steps: 100, keep_checkpoint_max: 3}
  - {type: SummaryMonitor}
)"),
            (Values{{"--seed", "7"},
                    {"--resume", "old/step-00000010"},
                    {"--eval", "held_out"},
                    {"--eval-every", "50"},
                    {"--data", "digits"},
                    {"--optimizer", "adamw"},
                    {"--beta1", "0.9"},
                    {"--beta2", "0.95"},
                    {"--epsilon", "1.e-6"},
                    {"--weight-decay", "0.1"},
                    {"--lr", "1.e-5"},
                    {"--lr-schedule", "cosine:end=1.e-6"},
                    {"--warmup", "3%"},
                    {"--clip-norm", "0.5"},
                    {"--log-every", "5"},
                    {"--save", "./out/checkpoint"},
                    {"--save-every", "100"},
                    {"--keep", "3"},
                    {"--tensorboard", "./out/summary"}}));
  EXPECT_EQ(all_said("optimizer: {type: SGD, momentum: 0.9, learning_rate: 0.1}\nload_checkpoint: w\n"),
            (Values{{"--optimizer", "momentum"}, {"--momentum", "0.9"}, {"--lr", "0.1"}, {"--init", "w"}}));
  EXPECT_EQ(said("resume_training: True\ncallbacks: [{type: CheckpointMonitor}]\n", "--resume"), "auto");
  EXPECT_EQ(said("context: {mode: 0, op_timeout: 300}\n", "--timeout"), "300");
  EXPECT_EQ(said("context: {op_timeout: 0}\n", "--timeout"), "");  // the usual one
  EXPECT_EQ(said("lr_schedule: {type: PolynomialWithWarmUpLR, warmup_steps: 20}\n", "--lr-schedule"),
            "polynomial:power=1.0,end=1e-7");
  EXPECT_EQ(said("lr_schedule: {warmup_epochs: 2}\n", "--warmup"), "2epochs");
  EXPECT_EQ(said("load_checkpoint: ''\nresume_training: False\n", "--resume"), "");
}

TEST(Config, what_a_run_cannot_do_is_told) {
  const auto told = [](const std::string& yaml) {
    const Config c = config(yaml);
    return fmt::format("{}", fmt::join(c.notices, "; "));
  };
  EXPECT_EQ(told("optimizer: {type: AdamW, use_fused: True, amsgrad: False}\n"),
            "optimizer.use_fused, optimizer.amsgrad have no effect");
  EXPECT_EQ(told("lr_schedule: {type: CosineWithWarmUpLR, total_steps: 1000, num_cycles: 0.5}\n"),
            "lr_schedule.total_steps has no effect: a schedule ends with the run, which --steps says");
  EXPECT_EQ(told("callbacks: [{type: ObsMonitor}]\n"),
            "callbacks[0].type has no effect: there is no 'ObsMonitor'");
  EXPECT_EQ(told("callbacks: [{type: CheckpointMonitor, async_save: True}]\n"),
            "callbacks[0].async_save has no effect");
  for (const char* wrong :
       {"resume_training: True\n", "do_eval: True\n", "optimizer: {type: Lion}\n", "callbacks: {a: b}\n",
        "lr_schedule: {type: Cosine}\n", "optimizer: {type: AdamW, betas: 0.9}\n",
        "lr_schedule: {warmup_ratio: some}\n", "callbacks: [MFLossMonitor]\n"})
    EXPECT_THROW(config(wrong), Error) << wrong;
}

TEST(Config, of_the_examples_is_read_whole) {
  const Config c = load_config("examples/config/llama2_7b_auto_parallel.yaml");
  Values said_all;
  for (const Config::Said& said : c.said) said_all[said.flag] = said.text;
  EXPECT_EQ(said_all, (Values{{"--parallel", "auto_parallel"},
                              {"--search", "recursive_programming"},
                              {"--auto-pipeline", "1"},
                              {"--mem-coeff", "0.1"},
                              {"--dataset-strategy", "full_batch"},
                              {"--optimizer-parallel", "1"},
                              {"--micro-batches", "4"},
                              {"--epochs", "2"},
                              {"--optimizer", "adamw"},
                              {"--beta1", "0.9"},
                              {"--beta2", "0.95"},
                              {"--lr", "5.e-5"},
                              {"--lr-schedule", "cosine:end=0"}}));
  EXPECT_EQ(global_batch(c.batch, 8), 32);
}

}  // namespace
}  // namespace shardwright
