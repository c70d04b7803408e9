#include "shardwright/exchange/deepspeed_recipe.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/exchange/recipe_words.h"
#include "shardwright/plan/json_fields.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {
namespace {

const std::vector<std::string> deepspeed_heeded_keys{"train_batch_size",
                                                     "train_micro_batch_size_per_gpu",
                                                     "gradient_accumulation_steps",
                                                     "zero_optimization",
                                                     "tensor_parallel",
                                                     "bf16",
                                                     "fp16",
                                                     "optimizer",
                                                     "gradient_clipping",
                                                     "communication_data_type",
                                                     "sequence_parallel_size",
                                                     "pipeline",
                                                     "expert_parallel",
                                                     deepspeed_own_key};
const std::vector<std::string> deepspeed_other_keys{"activation_checkpointing",
                                                    "scheduler",
                                                    "steps_per_print",
                                                    "wall_clock_breakdown",
                                                    "dump_state",
                                                    "prescale_gradients",
                                                    "gradient_predivide_factor",
                                                    "sparse_gradients",
                                                    "amp",
                                                    "flops_profiler",
                                                    "autotuning",
                                                    "aio",
                                                    "tensorboard",
                                                    "wandb",
                                                    "csv_monitor",
                                                    "comet",
                                                    "comms_logger",
                                                    "elasticity",
                                                    "checkpoint",
                                                    "data_types",
                                                    "compression_training",
                                                    "data_efficiency",
                                                    "curriculum_learning",
                                                    "seq_parallel_communication_data_type",
                                                    "disable_allgather",
                                                    "fp32_allreduce",
                                                    "memory_breakdown",
                                                    "zero_allow_untested_optimizer",
                                                    "zero_force_ds_cpu_optimizer",
                                                    "sparse_attention",
                                                    "compile",
                                                    "graph_harvesting",
                                                    "torch_autocast",
                                                    "use_data_before_expert_parallel_",
                                                    "eigenvalue"};

/// Of those that are known there are too many to list.
void check_known(const Json& object, std::string_view where, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end())
      throw error("{}{}: is no key of DeepSpeed's configuration{}", where, key, near_names(key, known));
}

bool is_left_open(const Json& value) { return value.is_null() || value == "auto"; }

class DeepSpeedReader {
 public:
  explicit DeepSpeedReader(const RecipeFile& file) : file_(file), all_(parse_json(file.text)) {
    if (!all_.is_object()) throw error("should be an object of keys");
    std::vector<std::string> known = deepspeed_heeded_keys;
    known.insert(known.end(), deepspeed_other_keys.begin(), deepspeed_other_keys.end());
    check_known(all_, "", known);
  }

  Recipe run() {
    read_degrees();
    read_zero();
    read_batch();
    read_precision();
    read_optimizer();
    std::vector<std::string> idle;
    for (const std::string& key : deepspeed_other_keys)
      if (all_.contains(key) && key != "activation_checkpointing") idle.push_back(key);
    if (!idle.empty())
      out_.not_heeded.push_back(
          fmt::format("{}: {} no effect on the plan", join(idle, ", "), idle.size() == 1 ? "has" : "have"));
    if (all_.contains("activation_checkpointing"))
      out_.not_heeded.push_back(
          "activation_checkpointing: which layers are computed again stands in the program; none are here");
    set_.add("recompute", "none");
    set_.add("framework", "fsdp");
    out_.say("--set", set_.text(), "its keys");
    return std::move(out_);
  }

 private:
  /// Of a section that is there.
  const Json& section(const char* key, const std::vector<std::string>& known) {
    static const Json none = Json::object();
    const auto it = all_.find(key);
    if (it == all_.end() || it->is_null()) return none;
    if (!it->is_object()) throw kind_error(key, "an object", *it);
    check_known(*it, std::string(key) + ".", known);
    return *it;
  }

  static std::optional<std::int64_t> count(const Json& of, const char* key, std::int64_t least = 1) {
    const auto it = of.find(key);
    if (it == of.end() || is_left_open(*it)) return std::nullopt;
    const std::optional<double> n = number_in(*it);  // 5e8 is a count, too
    constexpr double most = 1LL << 40;
    if (!n || std::floor(*n) != *n || *n > most) return long_of(*it, key, least, 1LL << 40);
    return long_of(static_cast<std::int64_t>(*n), key, least, 1LL << 40);
  }
  static bool is_on(const Json& of, const char* key) { return member_or(of, key, "true or false", false); }

  void read_degrees() {
    const Json& tensor = section(
        "tensor_parallel", {"autotp_size", "preset_model", "tp_overlap_comm", "partition_config", "tp"});
    tensor_ = {"tensor_parallel.autotp_size", count(tensor, "autotp_size", 0).value_or(1)};
    tensor_.value = std::max<std::int64_t>(tensor_.value, 1);
    const Keyed context{"sequence_parallel_size", count(all_, "sequence_parallel_size").value_or(1)};
    const Json& experts =
        section("expert_parallel", {"enabled", "autoep_size", "expert_tensor_parallel_size", "preset_model"});
    const Json& pipeline =
        section("pipeline", {"stages", "partition", "seed_layers", "activation_checkpoint_interval",
                             "pipe_partitioned", "grad_partitioned", "use_reentrant"});
    const Keyed stages{"pipeline.stages", count(pipeline, "stages").value_or(1)};
    std::vector<Keyed> factors{tensor_};
    if (stages.value > 1) factors.push_back(stages);
    if (context.value > 1) factors.push_back(context);
    data_ = data_degree(file_.devices, factors);
    set_.add("dp", data_);
    set_.add("tp", tensor_.value);
    set_.add("pp", stages.value);
    if (context.value > 1) set_.add("cp", context.value);
    if (context.value > 1) set_.add("context", "exchange");
    const std::int64_t of_experts = is_on(experts, "enabled") ? count(experts, "autoep_size").value_or(2) : 1;
    if (of_experts > 1) set_.add("ep", of_experts);
    if (tensor.contains("partition_config"))
      out_.not_heeded.push_back("tensor_parallel.partition_config: tp splits as Megatron does");
  }

  void read_zero() {
    const Json& zero = section("zero_optimization", {"stage",
                                                     "offload_optimizer",
                                                     "offload_param",
                                                     "overlap_comm",
                                                     "reduce_bucket_size",
                                                     "allgather_bucket_size",
                                                     "allgather_partitions",
                                                     "reduce_scatter",
                                                     "contiguous_gradients",
                                                     "stage3_max_live_parameters",
                                                     "stage3_max_reuse_distance",
                                                     "stage3_prefetch_bucket_size",
                                                     "stage3_param_persistence_threshold",
                                                     "stage3_gather_16bit_weights_on_model_save",
                                                     "stage3_gather_fp16_weights_on_model_save",
                                                     "stage3_module_granularity_threshold",
                                                     "stage3_use_all_reduce_for_fetch_params",
                                                     "model_persistence_threshold",
                                                     "sub_group_size",
                                                     "zero_hpz_partition_size",
                                                     "zero_quantized_weights",
                                                     "zero_quantized_gradients",
                                                     "mics_shard_size",
                                                     "mics_hierarchical_params_gather",
                                                     "round_robin_gradients",
                                                     "ignore_unused_parameters",
                                                     "elastic_checkpoint",
                                                     "load_from_fp32_weights",
                                                     "cpu_offload",
                                                     "cpu_offload_params",
                                                     "use_multi_rank_bucket_allreduce",
                                                     "override_module_apply",
                                                     "log_trace_cache_warnings",
                                                     "zero_quantized_nontrainable_weights",
                                                     "memory_efficient_linear",
                                                     "leaf_module"});
    const std::int64_t level = count(zero, "stage", 0).value_or(0);
    if (level > 3) throw error("zero_optimization.stage {}: there are 0 to 3", level);
    set_.add("zero", level);
    if (const auto group = count(zero, "mics_shard_size"); group && level > 0) set_.add("zero_group", *group);
    if (level > 0) set_.add("zero_threshold", level < 3 ? 0 : bytes_that_stay(zero));
    std::vector<std::string> shares;
    for (const auto& [key, ours] :
         {std::pair("offload_optimizer", "optimizer"), {"offload_param", "parameters"}})
      if (const auto it = zero.find(key); it != zero.end() && it->is_object()) {
        const std::string device = member_or<std::string>(*it, "device", "a text", "none");
        if (device == "none") continue;
        if (device == "nvme")
          out_.not_heeded.push_back(
              fmt::format("zero_optimization.{}.device nvme: they are in memory of the host", key));
        const double ratio = number_or(*it, "ratio", 1);
        shares.push_back(ratio < 1 ? fmt::format("{}:{}", ours, ratio) : ours);
      }
    if (!shares.empty()) set_.add("offload", "{" + join(shares, ",") + "}");
    if (zero.contains("reduce_bucket_size") || zero.contains("allgather_bucket_size"))
      out_.not_heeded.push_back(
          "zero_optimization: sizes of buckets; collectives run as one as it pays here");
    if (count(zero, "zero_hpz_partition_size").value_or(1) > 1)
      out_.not_heeded.push_back(
          "zero_optimization.zero_hpz_partition_size: there is no second shard of weights");
  }

  /// Smaller weights are whole on each device; 1e5 elements where nobody says it.
  std::int64_t bytes_that_stay(const Json& zero) {
    return count(zero, "stage3_param_persistence_threshold", 0).value_or(100000) * bytes_of_parameter();
  }
  std::int64_t bytes_of_parameter() {
    const bool is_short = is_on(section_of("bf16"), "enabled") || is_on(section_of("fp16"), "enabled");
    return is_short ? 2 : 4;
  }
  const Json& section_of(const char* key) {
    static const Json none = Json::object();
    const auto it = all_.find(key);
    return it != all_.end() && it->is_object() ? *it : none;
  }

  /// Two of the three say the third.
  void read_batch() {
    const auto total = count(all_, "train_batch_size"), micro = count(all_, "train_micro_batch_size_per_gpu"),
               steps = count(all_, "gradient_accumulation_steps");
    if (!total && !micro)
      throw error("train_batch_size and train_micro_batch_size_per_gpu are missing; one must be there");
    const Keyed data{"data parallelism", data_};
    if (total && micro && steps)
      check_product(
          {"train_batch_size", *total},
          {{"train_micro_batch_size_per_gpu", *micro}, {"gradient_accumulation_steps", *steps}, data});
    std::int64_t batch = total.value_or(0), parts = steps.value_or(1);
    if (!total) batch = *micro * parts * data_;
    if (total && micro && !steps)
      parts =
          micro_batches_of({"train_batch_size", *total}, {"train_micro_batch_size_per_gpu", *micro}, data_);
    if (total && !micro)
      micro_batches_of({"train_batch_size", *total}, {"gradient_accumulation_steps", parts}, data_);
    set_.add("micro_batches", parts);
    set_.add("global_batch", batch);
  }

  void read_precision() {
    const Json& bf16 = section("bf16", {"enabled", "bf16_master_weights_and_grads", "bf16_optimizer_states",
                                        "immediate_grad_update", "check_grad_overflow"});
    const Json& fp16 = section(
        "fp16", {"enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window",
                 "hysteresis", "consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads"});
    const bool is_bf16 = is_enabled(bf16), is_fp16 = is_enabled(fp16);
    if (is_bf16 && is_fp16) throw error("bf16.enabled and fp16.enabled exclude each other");
    const bool keeps_short = is_on(bf16, "bf16_master_weights_and_grads");
    out_.say("--precision",
             is_bf16   ? (keeps_short ? "pure-bf16" : "bf16")
             : is_fp16 ? "fp16"
                       : "f32",
             is_bf16   ? "bf16.enabled"
             : is_fp16 ? "fp16.enabled"
                       : "no bf16 or fp16");
    if (is_fp16) {
      const double scale =
          is_left_open(fp16.value("loss_scale", Json())) ? 0 : number_or(fp16, "loss_scale", 0);
      out_.say("--loss-scale", scale == 0 ? "dynamic" : fmt::format("{}", scale), "fp16.loss_scale");
    }
    const std::string reduced = member_or<std::string>(all_, "communication_data_type", "a text", "");
    if ((is_bf16 || is_fp16) && (reduced == "bf16" || reduced == "fp16") && !keeps_short)
      out_.say("--reduce-precision", "short", "communication_data_type");
  }
  static bool is_enabled(const Json& section) {
    return !is_left_open(section.value("enabled", Json())) && is_on(section, "enabled");
  }

  void read_optimizer() {
    if (const auto it = all_.find("gradient_clipping"); it != all_.end() && !is_left_open(*it))
      if (const double norm = number_or(all_, "gradient_clipping", 0); norm > 0)
        out_.say("--clip-norm", fmt::format("{}", norm), "gradient_clipping");
    const Json& optimizer = section("optimizer", {"type", "params", "legacy_fusion"});
    if (optimizer.empty()) return;
    const std::string type = text_or(optimizer, "type", "");
    const Json params = optimizer.value("params", Json::object());
    const auto say = [&](const char* flag, const char* key) {
      if (params.contains(key) && !is_left_open(params[key]))
        out_.say(flag, fmt::format("{}", number_or(params, key, 0)), fmt::format("optimizer.params.{}", key));
    };
    const bool is_w =
        type == "AdamW" || (type == "Adam" && member_or(params, "adam_w_mode", "true or false", true));
    if (type != "Adam" && type != "AdamW" && type != "SGD")
      throw error("optimizer.type {}: there are Adam, AdamW and SGD", type);
    const double momentum = number_or(params, "momentum", 0);
    out_.say("--optimizer",
             is_w             ? "adamw"
             : type == "Adam" ? "adam"
             : momentum > 0   ? "momentum"
                              : "sgd",
             "optimizer.type");
    say("--lr", "lr");
    say("--weight-decay", "weight_decay");
    if (type == "SGD") {
      if (momentum > 0) say("--momentum", "momentum");
      return;
    }
    say("--epsilon", "eps");
    if (!params.contains("betas") || is_left_open(params["betas"])) return;
    const Json& betas = params["betas"];
    if (!betas.is_array() || betas.size() != 2 || !number_in(betas[0]) || !number_in(betas[1]))
      throw error("optimizer.params.betas: should be two numbers, as in [0.9, 0.95]");
    out_.say("--beta1", fmt::format("{}", *number_in(betas[0])), "optimizer.params.betas");
    out_.say("--beta2", fmt::format("{}", *number_in(betas[1])), "optimizer.params.betas");
  }

  const RecipeFile& file_;
  Json all_;
  Recipe out_;
  SetWords set_;
  Keyed tensor_;
  std::int64_t data_ = 1;
};

}  // namespace

Recipe read_deepspeed(const RecipeFile& file) { return DeepSpeedReader(file).run(); }

}  // namespace shardwright
