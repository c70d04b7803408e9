// DeepSpeed: the JSON of its configuration. train_batch_size = train_micro_batch_size_per_gpu x
// gradient_accumulation_steps x the degree of data parallelism. Source: docs/_pages/config-json.md.

#include "shardwright/base/dtype.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/deepspeed_recipe.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::formats {
namespace {

constexpr const char* own_key =
    "shardwright";  // what a file written here does not carry; nobody else reads it

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), grid_(plan.grid_for("DeepSpeed")), left_(plan) {}

  Exported run() {
    left_.read_as("fsdp");
    add_stages();
    add_batch();
    add_zero();
    add_tensor_parallel();
    add_precision();
    add_optimizer();
    left_.leave({"recompute"}, "deepspeed.checkpointing is called in the program");
    left_.leave({"sequence_parallel"}, "tp splits by the sequence here; sequence_parallel_size is Ulysses");
    left_.leave({"operators split otherwise"}, "AutoTP splits as --set with these degrees does");
    left_.take({"dp"});
    const std::vector<std::string> lines = left_.lines();
    out_[deepspeed_own_key] = {
        {"model", plan_.what.model}, {"devices", plan_.plan.devices()}, {"not_carried", lines}};
    return {.text = out_.dump(2) + "\n", .not_carried = lines};
  }

 private:
  void add_stages() {
    if (grid_.of("pp") == 1) return;
    out_["pipeline"] = {{"stages", grid_.of("pp")}};
    left_.take({"pp"});
    left_.add(fmt::format("pp={}: the program says it, too, by PipelineModule(num_stages={})", grid_.of("pp"),
                          grid_.of("pp")));
    if (plan_.plan.settings.optimizer_parallel.level >= 2)
      left_.add(fmt::format("zero={}: DeepSpeed refuses it beside stages",
                            plan_.plan.settings.optimizer_parallel.level));
    if (plan_.plan.settings.pipelining.schedule.name == "1f1b") left_.take({"schedule"});
    left_.leave({"schedule"}, "DeepSpeed's is 1f1b");
    left_.leave({"layers by stage", "layers cut"},
                "PipelineModule(partition_method=..) says it in the program");
  }

  void add_batch() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    const std::int64_t samples = plan_.what.samples * p.interleave;
    if (samples == 0) return;
    out_["train_batch_size"] = plan_.batch();
    out_["train_micro_batch_size_per_gpu"] = samples / grid_.of("dp");
    out_["gradient_accumulation_steps"] = p.micro_batches;
    left_.take({"global_batch", "micro_batches"});
  }

  void add_zero() {
    const OptimizerParallel& zero = plan_.plan.settings.optimizer_parallel;
    const Offload& offload = plan_.plan.settings.offload;
    Json settings{{"stage", zero.level}};
    left_.take({"zero"});
    if (zero.level == 3) {
      const auto size = static_cast<std::int64_t>(size_of(plan_.plan.origin.precision.compute));
      settings["stage3_param_persistence_threshold"] = zero.threshold / size;
      if (zero.threshold % size == 0) left_.take({"zero_threshold"});
      left_.leave({"zero_threshold"}, fmt::format("DeepSpeed counts elements, of {} bytes", size));
    } else if (zero.level > 0 && zero.threshold > 0) {
      left_.take({"zero_threshold"});
      left_.add(
          fmt::format("zero_threshold={}: DeepSpeed shards states of all that there is", zero.threshold));
    }
    if (offload.optimizer > 0) {
      settings["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
      if (offload.optimizer < 1) settings["offload_optimizer"]["ratio"] = offload.optimizer;
    }
    if (offload.parameters == 1 && zero.level == 3)
      settings["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
    const bool has_all =
        offload.activations == 0 && (offload.parameters == 0 || settings.contains("offload_param"));
    if (has_all) left_.take({"offload"});
    left_.leave({"offload"},
                "DeepSpeed keeps states on the host, parameters all of stage 3, activations in the program");
    if (zero.group > 0) left_.leave({"zero_group"}, "MiCS, mics_shard_size, is started in the program");
    out_["zero_optimization"] = std::move(settings);
  }

  void add_tensor_parallel() {
    if (grid_.of("tp") == 1) return;
    out_["tensor_parallel"] = {{"autotp_size", grid_.of("tp")}};
    left_.take({"tp"});
  }

  void add_precision() {
    const std::string precision = to_text(plan_.plan.origin.precision);
    const LossScale& scale = plan_.plan.origin.optimizer.loss_scale;
    if (precision == "bf16") out_["bf16"] = {{"enabled", true}};
    if (precision == "fp16") {
      const bool is_dynamic = scale == dynamic_loss_scale();
      out_["fp16"] = {{"enabled", true}, {"loss_scale", is_dynamic ? 0.0 : scale.initial}};
      if (is_dynamic)
        out_["fp16"]["initial_scale_power"] = 16, out_["fp16"]["loss_scale_window"] = scale.interval;
      if (is_dynamic || scale.interval == 0) left_.take({"loss_scale"});
    }
    if (precision == "bf16" || precision == "fp16") left_.take({"precision"});
    if (plan_.plan.origin.optimizer.reduces_short && precision != "f32") {
      out_["communication_data_type"] = precision;
      left_.take({"reduce_precision"});
    }
  }

  void add_optimizer() {
    const OptimizerChoice& choice = plan_.plan.origin.optimizer;
    const auto setting = [&](const char* name) {
      return choice.attributes.number(name, default_setting(choice.name, name));
    };
    if (choice.clip_norm > 0) out_["gradient_clipping"] = choice.clip_norm;
    left_.take({"clip_norm"});
    if (choice.name == "lazy_adam")
      return left_.leave({"optimizer"},
                         "DeepSpeed has no Adam of the rows of a batch; PyTorch's SparseAdam is one");
    Json params{{"lr", setting("rate")}, {"weight_decay", setting("weight_decay")}};
    if (choice.name == "adam" || choice.name == "adamw") {
      params["betas"] = {setting("beta1"), setting("beta2")};
      params["eps"] = setting("epsilon");
      if (choice.name == "adam") params["adam_w_mode"] = false;
      out_["optimizer"] = {{"type", choice.name == "adam" ? "Adam" : "AdamW"}, {"params", std::move(params)}};
    } else if (choice.name == "adagrad") {
      params["eps"] = setting("epsilon");
      out_["optimizer"] = {{"type", "Adagrad"}, {"params", std::move(params)}};
    } else {
      params["momentum"] = choice.name == "sgd" ? 0.0 : setting("momentum");
      if (setting("nesterov") != 0) params["nesterov"] = true;
      out_["optimizer"] = {{"type", "SGD"}, {"params", std::move(params)}};
    }
    left_.take({"optimizer"});
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft left_;
  Json out_ = Json::object();
};

Exported write(const WrittenPlan& plan) { return Writer(plan).run(); }

Recipe read(const RecipeFile& file) { return read_deepspeed(file); }

bool is_one(const RecipeFile& file) {
  return file.text.find("\"train_micro_batch_size_per_gpu\"") != file.text.npos ||
         file.text.find("\"train_batch_size\"") != file.text.npos ||
         file.text.find("\"zero_optimization\"") != file.text.npos;
}

}  // namespace

std::vector<PlanFormat> deepspeed() {
  return {{.name = "deepspeed",
           .doc = "the JSON that DeepSpeed is configured by",
           .write = write,
           .read = read,
           .is_one = is_one}};
}

}  // namespace shardwright::formats
