// torchtitan: a function in Python that returns its Trainer.Config, run by `--module MODULE --config recipe`.
// Source: torchtitan/config/{parallelism,training}.py, torchtitan/distributed/activation_checkpoint.py.

#include "shardwright/base/text.h"
#include "shardwright/exchange/megatron_settings.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/python/text.h"
#include "shardwright/exchange/titan_recipe.h"
#include "shardwright/exchange/words_left.h"

namespace shardwright::formats {
namespace {

/// As its models call what ours call so.
std::string module_name(const std::string& ours) {
  if (ours == "embedding") return "tok_embeddings";
  return ours == "head" ? "output" : ours;
}

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), grid_(plan.grid_for("torchtitan")), left_(plan) {}

  Exported run() {
    left_.read_as("torchtitan");
    add_data();
    add_degrees();
    add_stages();
    add_batch();
    add_precision();
    leave_words();
    const std::vector<std::string> lines = left_.lines();
    Exported out{.text = head_text(plan_, "torchtitan", lines), .not_carried = lines};
    out.text += "from torchtitan.config import ParallelismConfig\n";
    out.text +=
        ac_.empty() ? "" : fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n", ac_);
    out.text +=
        "from torchtitan.models.llama3.config_registry import llama3_debugmodel as base  # the model's own\n"
        "from torchtitan.trainer import Trainer\n\n\n"
        "def recipe() -> Trainer.Config:\n    config = base()\n    config.parallelism = ParallelismConfig(\n";
    for (const auto& [name, value] : parallelism_)
      out.text +=
          fmt::format("        {}={},\n", name, python_lines(value, name == modules ? 1 : 0, "        "));
    out.text += "    )\n";
    for (const auto& [name, value] : training_)
      out.text += fmt::format("    config.training.{} = {}\n", name, python_text(value));
    out.text +=
        fmt::format("    config.activation_checkpoint = {}\n", ac_.empty() ? "None" : ac_ + ".Config()");
    out.text += "    return config\n";
    return out;
  }

 private:
  static constexpr std::string_view modules = "module_fqns_per_model_part";

  void set(const char* name, Json value) { parallelism_.emplace_back(name, std::move(value)); }
  void train(const char* name, Json value) { training_.emplace_back(name, std::move(value)); }

  /// Whole copies, shards, or shards in groups.
  void add_data() {
    const OptimizerParallel& zero = plan_.plan.settings.optimizer_parallel;
    const int data = grid_.of("dp");
    const bool is_sharded = zero.level >= 2;
    const int shard = !is_sharded ? 1 : zero.group > 0 && data % zero.group == 0 ? zero.group : data;
    set("data_parallel_replicate_degree", data / shard);
    set("data_parallel_shard_degree", shard);
    left_.take({"dp"});
    if (is_sharded && shard == 1)
      return left_.leave({"zero"}, "there is one replica, of which FSDP shards nothing");
    if (is_sharded) {
      set("fsdp_reshard_after_forward", zero.level == 3 ? "always" : "never");
      left_.take({"zero", "zero_group", "zero_threshold"});
      if (zero.threshold > 0)
        left_.add(fmt::format("zero_threshold={}: FSDP shards dim 0 of all weights, as PyTorch has them",
                              zero.threshold));
      if (zero.level == 2)
        left_.add(
            "zero=2: FSDP shards weights between steps, too, and keeps them whole from forward to backward");
    }
    left_.leave({"zero"}, "there is FSDP, which shards gradients and weights, or whole copies");
  }

  void add_degrees() {
    set("tensor_parallel_degree", grid_.of("tp"));
    set("enable_sequence_parallel", grid_.by_sequence());
    if (grid_.of("ep") > 1) set("expert_parallel_degree", grid_.of("ep"));
    left_.take({"tp", "ep", "sequence_parallel"});
    left_.leave({"etp"}, "torchtitan keeps the features of each expert whole");
    left_.leave({"operators split otherwise"}, "torchtitan splits as --set with these degrees does");
  }

  void add_stages() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    set("pipeline_parallel_degree", p.stages);
    left_.take({"pp"});
    if (p.stages == 1) return;
    if (const std::string name = titan_schedule(p.schedule); !name.empty()) {
      set("pipeline_parallel_schedule", name);
      left_.take({"schedule"});
    } else {
      set("pipeline_parallel_schedule",
          p.schedule.chunks > 1 ? "PipelineScheduleMulti" : "PipelineScheduleSingle");
      set("pipeline_parallel_schedule_csv", "schedule.csv");
      left_.leave({"schedule"}, "export --to torch-schedule -o schedule.csv writes its tasks");
    }
    set("num_pp_microbatches", p.micro_batches);
    Json parts = Json::array();
    std::vector<std::string> seen;
    for (const PlacedPart& part : plan_.parts) {
      Json names = Json::array();
      for (const std::string& module : part.modules) {
        const bool is_known =
            module.starts_with("layers.") || module == "embedding" || module == "norm" || module == "head";
        if (!is_known || std::ranges::find(seen, module) != seen.end()) continue;
        seen.push_back(module);
        names.push_back(module_name(module));
      }
      parts.push_back(std::move(names));
    }
    set(modules.data(), std::move(parts));
    left_.take({"layers by stage"});
    left_.leave({"layers cut"}, "torchtitan cuts between modules; each is written where it begins");
    if (!plan_.far_crossings.empty())
      left_.add(
          fmt::format("what goes between stages that are no neighbours, which PyTorch does not send: {}",
                      some_of(plan_.far_crossings)));
  }

  void add_batch() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    const std::int64_t sequence = plan_.what.sizes.of("seq");
    const std::int64_t samples = plan_.what.samples * p.interleave;
    if (sequence == 0)
      throw error("torchtitan: counts tokens of sequences, and {} has none", plan_.what.model);
    train("num_tokens_per_microbatch_per_dp_rank", samples / grid_.of("dp") * sequence);
    train("num_tokens_per_train_step", plan_.batch() * sequence);
    train("max_context_length", sequence);
    left_.take({"global_batch", "micro_batches"});
  }

  void add_precision() {
    const std::string precision = to_text(plan_.plan.origin.precision);
    const bool is_mixed = precision == "bf16";
    if (precision == "f32" || is_mixed)
      train("mixed_precision_param", is_mixed ? "bfloat16" : "float32");
    else if (precision == "pure-bf16")
      train("dtype", "bfloat16");
    if (is_mixed || precision == "pure-bf16") left_.take({"precision"});
    if (is_mixed)
      train("mixed_precision_reduce", plan_.plan.origin.optimizer.reduces_short ? "bfloat16" : "float32");
    if (is_mixed) left_.take({"reduce_precision"});
    train("max_norm", plan_.plan.origin.optimizer.clip_norm);
    left_.take({"clip_norm"});
    const Offload& offload = plan_.plan.settings.offload;
    if (offload.optimizer == 1 && offload.parameters == 1 &&
        plan_.plan.settings.optimizer_parallel.level >= 2) {
      train("enable_cpu_offload", true);
      if (offload.activations == 0) left_.take({"offload"});
    }
    left_.leave({"offload"}, "FSDP keeps parameters, gradients and states on the host, or none of them");
  }

  void leave_words() {
    const Recompute& recompute = plan_.plan.settings.recompute;
    if (recompute.mode == RecomputeMode::full) ac_ = "FullAC";
    if (recompute.mode == RecomputeMode::selected) ac_ = "SelectiveAC";
    left_.take({"recompute"});
    left_.leave({"optimizer"}, "that of the model's own recipe stays");
    left_.leave({"micro_batch_interleave"}, "there is no such setting");
    left_.add(fmt::format("the network {}: model_spec says it", plan_.what.model));
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft left_;
  std::string ac_;  // of activation checkpointing
  std::vector<std::pair<std::string, Json>> parallelism_, training_;
};

Exported write(const WrittenPlan& plan) { return Writer(plan).run(); }

bool is_one(const RecipeFile& file) {
  for (const char* word : {"tensor_parallel_degree", "data_parallel_shard_degree", "ParallelismConfig("})
    if (file.text.find(word) != file.text.npos) return true;
  return false;
}

}  // namespace

std::vector<PlanFormat> torchtitan() {
  return {{.name = "torchtitan",
           .doc = "a recipe of torchtitan, a function in Python",
           .write = write,
           .read = read_titan,
           .is_one = is_one}};
}

}  // namespace shardwright::formats
