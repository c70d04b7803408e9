#include "shardwright/exchange/titan_recipe.h"

#include <algorithm>
#include <array>

#include "shardwright/base/given.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/exchange/option_text.h"
#include "shardwright/exchange/recipe_words.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {
namespace {

/// PyTorch's name, and ours; `:V` has as many chunks as there are parts for a stage.
struct TitanSchedule {
  std::string_view theirs, ours;
};
constexpr std::array titan_schedules{TitanSchedule{"1F1B", "1f1b"}, TitanSchedule{"GPipe", "gpipe"},
                                     TitanSchedule{"Interleaved1F1B", "interleaved"},
                                     TitanSchedule{"ZBVZeroBubble", "zb-v"},
                                     TitanSchedule{"DualPipeV", "dualpipe-v"}};

const std::vector<std::string> parallelism_names{"data_parallel_replicate_degree",
                                                 "data_parallel_shard_degree",
                                                 "fsdp_reshard_after_forward",
                                                 "tensor_parallel_degree",
                                                 "enable_sequence_parallel",
                                                 "spmd_backend",
                                                 "pipeline_parallel_degree",
                                                 "module_fqns_per_model_part",
                                                 "pipeline_parallel_module_fqns_per_model_part",
                                                 "pipeline_parallel_first_stage_less_layers",
                                                 "pipeline_parallel_last_stage_less_layers",
                                                 "pipeline_parallel_layers_per_stage",
                                                 "pipeline_parallel_schedule",
                                                 "pipeline_parallel_schedule_csv",
                                                 "num_pp_microbatches",
                                                 "pipeline_parallel_microbatch_size",
                                                 "context_parallel_degree",
                                                 "context_parallel_load_balancer",
                                                 "context_parallel_rotate_method",
                                                 "expert_parallel_degree",
                                                 "expert_tensor_parallel_degree",
                                                 "disable_loss_parallel",
                                                 "enable_async_tensor_parallel",
                                                 "full_dtensor",
                                                 "fsdp_defer_gradient_reduction",
                                                 "fsdp_symm_mem_scope",
                                                 "enable_fsdp_symm_mem",
                                                 "save_parallelism_file",
                                                 "pipeline_parallel_max_outstanding_sends",
                                                 "pp_max_unsharded_active_stages",
                                                 "pp_num_unshard_lookahead_factor",
                                                 "pipeline_parallel_split_points",
                                                 "enable_compiled_autograd"};
const std::vector<std::string> training_names{"num_tokens_per_microbatch_per_dp_rank",
                                              "num_tokens_per_train_step",
                                              "max_context_length",
                                              "local_batch_size",
                                              "global_batch_size",
                                              "seq_len",
                                              "max_norm",
                                              "steps",
                                              "enable_cpu_offload",
                                              "dtype",
                                              "mixed_precision_param",
                                              "mixed_precision_reduce",
                                              "gc_freq",
                                              "gc_debug",
                                              "disable_cuda_graphs",
                                              "dataset",
                                              "dataset_path",
                                              "compile",
                                              "seed",
                                              "deterministic"};

class TitanReader {
 public:
  explicit TitanReader(const RecipeFile& file) : file_(file) {
    for (Assigned& a : assignments_in(file.text)) {
      if (a.name == "activation_checkpoint" || (a.section == "activation_checkpoint" && a.name == "mode") ||
          (a.section == "ActivationCheckpointConfig" && a.name == "mode"))
        ac_ = a.value;
      const bool is_parallelism = a.section == "ParallelismConfig" || a.section == "parallelism";
      if (is_parallelism || a.section == "TrainingConfig" || a.section == "training")
        add(a, is_parallelism ? "parallelism" : "training",
            is_parallelism ? parallelism_names : training_names);
    }
    if (said_.empty())
      throw error("says nothing by ParallelismConfig(..), TrainingConfig(..) or --parallelism.NAME");
  }

  Recipe run() {
    read_degrees();
    read_batch();
    read_stages();
    read_step();
    for (const char* name : {"parallelism.spmd_backend", "parallelism.enable_async_tensor_parallel",
                             "parallelism.full_dtensor", "training.steps", "training.disable_cuda_graphs"})
      if (has(name)) out_.not_heeded.push_back(fmt::format("{} has no effect on the plan", name));
    set_.add("framework", "torchtitan");
    out_.say("--set", set_.text(), "its options");
    return std::move(out_);
  }

 private:
  void add(const Assigned& a, const std::string& section, const std::vector<std::string>& known) {
    if (std::ranges::find(known, a.name) == known.end())
      throw error("{}.{}: is no option of torchtitan{}", section, a.name, near_names(a.name, known));
    said_[section + "." + a.name] = a.value;
  }

  bool has(const std::string& name) const {
    const auto it = said_.find(name);
    return it != said_.end() && it->second != "None" && !it->second.empty();
  }
  std::string text(const std::string& name, const std::string& otherwise = "") const {
    return has(name) ? said_.at(name) : otherwise;
  }
  bool is_on(const std::string& name, bool otherwise = false) const {
    return has(name) ? lower(text(name)) == "true" : otherwise;
  }
  /// A product of counts, `8 * 2048`, is one.
  Keyed count(const std::string& name, std::int64_t otherwise = 1) const {
    if (!has(name)) return {name, otherwise};
    Keyed out{name, 1};
    const std::string product = text(name);
    for (const std::string_view factor : split(product, '*'))
      out.value *= Given{name, std::string(trim(factor))}.integer(-1);
    return out;
  }

  void read_degrees() {
    const Keyed replicate = count("parallelism.data_parallel_replicate_degree"),
                shard = count("parallelism.data_parallel_shard_degree", -1),
                tensor = count("parallelism.tensor_parallel_degree"),
                context = count("parallelism.context_parallel_degree"),
                experts = count("parallelism.expert_parallel_degree");
    stages_ = count("parallelism.pipeline_parallel_degree");
    std::vector<Keyed> factors{replicate, tensor, stages_};
    if (context.value > 1) factors.push_back(context);
    if (shard.value > 0) factors.push_back(shard);
    const std::int64_t rest = data_degree(file_.devices, factors);
    if (shard.value > 0 && rest != 1)
      throw error("{} = {}: but the cluster has {} devices; {} {} would use them", product_text(factors),
                  product_of(factors), file_.devices, shard.key, shard.value * rest);
    const std::int64_t shards = shard.value > 0 ? shard.value : rest;
    data_ = replicate.value * shards;
    set_.add("dp", data_);
    set_.add("tp", tensor.value);
    set_.add("pp", stages_.value);
    if (context.value > 1) set_.add("cp", context.value);
    if (experts.value > 1) set_.add("ep", experts.value), set_.add("etp", 1);
    if (tensor.value > 1 && is_on("parallelism.enable_sequence_parallel", true))
      set_.add("sequence_parallel", 1);
    if (shards == 1) return set_.add("zero", 0);
    const std::string reshard = text("parallelism.fsdp_reshard_after_forward", "default");
    const bool is_default_off = reshard == "default" && stages_.value > 1;
    if (reshard != "default" && reshard != "always" && reshard != "never")
      throw error("parallelism.fsdp_reshard_after_forward {}: there are default, always and never", reshard);
    set_.add("zero", reshard == "never" || is_default_off ? 2 : 3);
    set_.add("zero_threshold", 0);  // it shards all that there is
    if (replicate.value > 1) set_.add("zero_group", shards);
  }

  /// Tokens, or as it was before, samples.
  void read_batch() {
    const Keyed length =
        has("training.seq_len") ? count("training.seq_len") : count("training.max_context_length", 0);
    if (length.value > 0) out_.sizes.push_back({"seq", length.value, length.key});
    Keyed micro = count("training.local_batch_size", 0), global = count("training.global_batch_size", -1);
    if (has("training.num_tokens_per_microbatch_per_dp_rank")) {
      if (length.value == 0)
        throw error("training.max_context_length is missing: it says how long a sample is");
      micro = samples_of(count("training.num_tokens_per_microbatch_per_dp_rank"), length);
      global = count("training.num_tokens_per_train_step", -1);
      if (global.value > 0) global = samples_of(global, length);
    } else if (micro.value > 0 && stages_.value > 1) {  // of which each is a micro-batch
      const Keyed part = count("parallelism.pipeline_parallel_microbatch_size");
      if (micro.value % part.value)
        throw error("{} {}: should be a multiple of {} {}", micro.key, micro.value, part.key, part.value);
      micro = part;
    }
    if (micro.value < 1) throw error("training.num_tokens_per_microbatch_per_dp_rank is missing");
    const std::int64_t parts = has("parallelism.num_pp_microbatches") && stages_.value > 1
                                   ? count("parallelism.num_pp_microbatches").value
                               : stages_.value > 1 && has("training.local_batch_size")
                                   ? count("training.local_batch_size").value / micro.value
                                   : 1;
    if (global.value < 0) global = {global.key, micro.value * data_ * parts};
    set_.add("micro_batches", micro_batches_of(global, micro, data_));
    set_.add("global_batch", global.value);
  }

  static Keyed samples_of(const Keyed& tokens, const Keyed& length) {
    if (tokens.value % length.value)
      throw error("{} {}: should be a multiple of {} {}", tokens.key, tokens.value, length.key, length.value);
    return {tokens.key + " / " + length.key, tokens.value / length.value};
  }

  void read_stages() {
    if (stages_.value == 1) return;
    std::string modules = "parallelism.pipeline_parallel_module_fqns_per_model_part";
    if (!has(modules)) modules = "parallelism.module_fqns_per_model_part";
    std::size_t parts = 0;
    if (has(modules)) parts = add_modules(modules);
    const std::string name = text("parallelism.pipeline_parallel_schedule", "1F1B");
    const std::string table = text("parallelism.pipeline_parallel_schedule_csv");
    if (!table.empty()) return set_.add("schedule", table);
    const auto it = std::ranges::find_if(
        titan_schedules, [&](const TitanSchedule& s) { return lower(s.theirs) == lower(name); });
    if (it == titan_schedules.end())
      throw error("parallelism.pipeline_parallel_schedule {}: there is none like it here", name);
    std::string ours(it->ours);
    if (ours == "interleaved")
      ours += fmt::format(":{}", parts > 0 ? parts / static_cast<std::size_t>(stages_.value) : 2);
    set_.add("schedule", ours);
    if (!has(modules))
      out_.not_heeded.push_back(
          "which layers each stage has: they are shared out evenly, torchtitan gives the first "
          "and the last one less");
  }

  /// How many parts there are.
  std::size_t add_modules(const std::string& key) {
    std::string quoted = text(key);
    std::ranges::replace(quoted, '\'', '"');
    if (const std::size_t comma = quoted.find_last_not_of(" \n\t]");
        comma != quoted.npos && quoted[comma] == ',')
      quoted[comma] = ' ';  // Python's last comma
    const Json parts = parse_json(quoted);
    const auto count = static_cast<std::int64_t>(parts.size());
    if (!parts.is_array() || count % stages_.value)
      throw error("{}: has {} parts, which {} {} does not divide", key, count, stages_.key, stages_.value);
    int part = 0;
    for (const Json& names : parts) {
      for (const Json& name : names) {
        const std::string theirs = name.get<std::string>();
        set_.add(theirs == "tok_embeddings" ? "embedding"
                 : theirs == "output"       ? "head"
                                            : theirs,
                 fmt::format("stage {}", part));
      }
      ++part;
    }
    return parts.size();
  }

  void read_step() {
    const bool is_short = text("training.dtype", "float32") == "bfloat16";
    const std::string mixed = text("training.mixed_precision_param", "bfloat16");
    out_.say("--precision",
             is_short              ? "pure-bf16"
             : mixed == "bfloat16" ? "bf16"
                                   : "f32",
             is_short ? "training.dtype" : "training.mixed_precision_param");
    if (!is_short && mixed == "bfloat16" && text("training.mixed_precision_reduce") == "bfloat16")
      out_.say("--reduce-precision", "short", "training.mixed_precision_reduce");
    const double norm =
        has("training.max_norm") ? Given{"training.max_norm", text("training.max_norm")}.number() : 1;
    if (norm > 0) out_.say("--clip-norm", fmt::format("{}", norm), "training.max_norm");
    if (is_on("training.enable_cpu_offload")) set_.add("offload", "{optimizer,parameters}");
    const std::string mode = ac_.substr(0, ac_.find('.'));
    if (mode == "FullAC" || mode == "full")
      set_.add("recompute", "full");
    else if (mode == "SelectiveAC" || mode == "selective")
      set_.add("recompute", "selected");
    else if (mode.empty() || mode == "None" || mode == "none")
      set_.add("recompute", "none");
    else
      throw error("activation_checkpoint {}: there are FullAC, SelectiveAC and None here", ac_);
  }

  const RecipeFile& file_;
  std::map<std::string, std::string> said_;  // by section and name
  std::string ac_;
  Recipe out_;
  SetWords set_;
  Keyed stages_;
  std::int64_t data_ = 1;
};

}  // namespace

std::string titan_schedule(const Schedule& schedule) {
  const auto it = std::ranges::find(titan_schedules, schedule.name, &TitanSchedule::ours);
  return it == titan_schedules.end() ? "" : std::string(it->theirs);
}

Recipe read_titan(const RecipeFile& file) { return TitanReader(file).run(); }

}  // namespace shardwright
