#include "shardwright/exchange/mindformers/config_keys.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// The words of `text`, and the keys of settings that stand in `section`.
Names keys_of(std::string_view section, std::string_view text) {
  Names out;
  for (std::string_view word : split(text, ' ')) out.emplace_back(word);
  for (const SettingRow& row : all_settings())
    if (const std::size_t dot = row.key.find('.'); dot != row.key.npos && row.key.substr(0, dot) == section)
      out.push_back(row.key.substr(dot + 1));
  return out;
}

}  // namespace

const Names& top_keys() {
  static const Names names =
      keys_of("",
              "amp_level autotune_per_step auto_trans_ckpt auto_tune batch_size calculate_per_token_loss "
              "callbacks context data_simplification do_eval enable_mindio_ttp_save_ckpt eval_callbacks "
              "eval_dataset eval_dataset_task eval_epoch_interval eval_step_interval filepath_prefix "
              "generation gradient_accumulation_steps grouped_lr_schedule ignore_data_skip "
              "init_start_profile layer_decay layer_scale load_checkpoint load_ckpt_async load_ckpt_format "
              "lr_scale lr_scale_factor lr_schedule metric micro_batch_interleave_num model moe_config "
              "monitor_config only_save_strategy optimizer output_dir parallel parallel_config "
              "print_separate_loss processor profile profile_communication profile_memory profile_output "
              "profile_rank_ids profile_start_step profile_stop_step profiler_level recompute_config "
              "remote_save_url remove_redundancy resume_training run_mode runner_config runner_wrapper "
              "seed src_strategy_path_or_dir swap_config train_dataset train_dataset_task trainer "
              "transform_process_num use_graceful_exit use_legacy use_parallel");
  return names;
}

const Names& parallel_keys() {
  static const Names names =
      keys_of("parallel",
              "all_reduce_fusion_config comm_fusion communi_parallel_mode dataset_strategy "
              "enable_alltoall enable_parallel_optimizer "
              "force_fp32_communication full_batch global_rank gradient_fp32_sync "
              "gradients_mean group_ckpt_save_file loss_repeated_mean parallel_mode "
              "parallel_optimizer_config parameter_broadcast pipeline_config pipeline_result_broadcast "
              "pipeline_stages strategy_ckpt_config strategy_ckpt_load_file "
              "strategy_ckpt_save_file");
  return names;
}

const Names& parallel_config_keys() {
  static const Names names =
      keys_of("parallel_config",
              "context_parallel context_parallel_algo data_parallel expert_parallel "
              "gradient_accumulation_steps gradient_aggregation_group micro_batch_interleave_num "
              "micro_batch_num model_parallel optimizer_shard pipeline_stage recompute select_recompute "
              "seq_split_num ulysses_degree_in_cp use_seq_parallel vocab_emb_dp");
  return names;
}

const Names& runner_keys() {
  static const Names names =
      keys_of("runner_config",
              "amp_level batch_size epochs global_batch_size gradient_accumulation_steps "
              "has_trained_epoches has_trained_steps image_size initial_epoch micro_batch_interleave_num "
              "mini_batch_size num_classes per_batch_size per_epoch_size sink_mode sink_size stop_step");
  return names;
}

const Names& optimizer_keys() {
  static const Names names =
      keys_of("",
              "gradient_accumulation_shard optimizer_level optimizer_weight_shard_size "
              "parallel_optimizer_threshold");
  return names;
}

const Names& compute_keys() {
  static const Names names = keys_of("", "compute_dtype");
  return names;
}

const Names& parameter_keys() {
  static const Names names = keys_of("", "param_init_type param_init_dtype");
  return names;
}

const Names& inner_keys() {
  static const Names names =
      keys_of("",
              "softmax_compute_dtype softmax_compute_type layernorm_compute_type layernorm_compute_dtype "
              "rotary_dtype");
  return names;
}

std::string near_keys(const std::string& key, const Names& known) {
  const std::vector<std::pair<std::string, const Names*>> sections{
      {"parallel", &parallel_keys()},
      {"parallel_config", &parallel_config_keys()},
      {"runner_config", &runner_keys()}};
  for (const auto& [name, keys] : sections)
    if (std::find(keys->begin(), keys->end(), key) != keys->end())
      return fmt::format(" (did you mean {}.{}?)", name, key);
  for (const Names* keys : {&compute_keys(), &parameter_keys(), &inner_keys()})
    if (std::find(keys->begin(), keys->end(), key) != keys->end())
      return fmt::format(" (did you mean model.model_config.{}?)", key);
  return near_names(key, known);
}

}  // namespace shardwright
