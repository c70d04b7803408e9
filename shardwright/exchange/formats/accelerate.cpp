// Hugging Face accelerate: the YAML of `accelerate launch --config_file`. Its mesh is dp_replicate, dp_shard, cp, tp, from
// the outside in. Source: accelerate/parallelism_config.py, accelerate/utils/dataclasses.py.

#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"

namespace shardwright::formats {
namespace {

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), grid_(plan.grid_for("accelerate")), left_(plan) {}

  Exported run() {
    const OptimizerParallel& zero = plan_.plan.settings.optimizer_parallel;
    const bool is_sharded = zero.level >= 2;
    const int data = grid_.of("dp");
    const int shard = !is_sharded ? 1 : zero.group > 0 && data % zero.group == 0 ? zero.group : data;
    std::string body = "compute_environment: LOCAL_MACHINE\n";
    body += fmt::format("distributed_type: {}\n", is_sharded ? "FSDP" : "MULTI_GPU");
    body += fmt::format("num_processes: {}\n", plan_.plan.devices());
    body += "mixed_precision: '" + precision() + "'\n" + accumulation();
    if (is_sharded) body += fsdp(zero);
    body += "parallelism_config:\n";
    for (const auto& [name, degree] :
         {std::pair("dp_replicate", data / shard), {"dp_shard", shard}, {"cp", 1}, {"tp", grid_.of("tp")}})
      body += fmt::format("  parallelism_config_{}_size: {}\n", name, degree);
    leave_words(is_sharded);
    const std::vector<std::string> lines = left_.lines();
    return {.text = head_text(plan_, "accelerate", lines) + body, .not_carried = lines};
  }

 private:
  std::string precision() {
    const std::string name = to_text(plan_.plan.origin.precision);
    if (name == "bf16" || name == "fp16") {
      left_.take({"precision"});
      if (plan_.plan.origin.optimizer.loss_scale == dynamic_loss_scale()) left_.take({"loss_scale"});
      return name;
    }
    return "no";
  }

  std::string accumulation() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    if (p.stages > 1) return "";
    left_.take({"micro_batches"});
    return fmt::format("gradient_accumulation_steps: {}\n", p.micro_batches);
  }

  std::string fsdp(const OptimizerParallel& zero) {
    const Recompute& recompute = plan_.plan.settings.recompute;
    const bool checkpoints = recompute.mode == RecomputeMode::full;
    const Offload& offload = plan_.plan.settings.offload;
    const bool offloads = offload.optimizer == 1 && offload.parameters == 1 && offload.activations == 0;
    left_.take({"zero", "zero_group", "zero_threshold"});
    if (zero.threshold > 0)
      left_.add(fmt::format("zero_threshold={}: FSDP shards dim 0 of all weights, as PyTorch has them",
                            zero.threshold));
    if (checkpoints) left_.take({"recompute"});
    if (offloads) left_.take({"offload"});
    return fmt::format(
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n  fsdp_activation_checkpointing: "
        "{}\n"
        "  fsdp_offload_params: {}\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
        zero.level == 3, checkpoints, offloads);
  }

  void leave_words(bool is_sharded) {
    left_.take({"dp", "tp"});
    if (!is_sharded)
      left_.leave({"zero"}, "there is FSDP, which shards gradients and weights, or whole copies");
    left_.leave({"pp", "schedule", "micro_batches"}, "the program cuts a model into stages");
    left_.leave({"global_batch"}, "the program's data loader says it");
    left_.leave({"optimizer", "clip_norm"}, "the program makes its optimizer");
    left_.leave({"sequence_parallel"}, "the model's tp plan says it");
    left_.leave({"operators split otherwise"}, "the model's tp plan says how it is split");
    left_.leave({"recompute"}, "the program says what is computed again, or FSDP does all");
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft left_;
};

Exported write(const WrittenPlan& plan) { return Writer(plan).run(); }

}  // namespace

std::vector<PlanFormat> accelerate() {
  return {{.name = "accelerate", .doc = "the YAML of accelerate launch", .write = write}};
}

}  // namespace shardwright::formats
