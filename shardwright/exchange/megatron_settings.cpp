#include "shardwright/exchange/megatron_settings.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/ops/optimizer_settings.h"

namespace shardwright {
namespace {

constexpr std::string_view layers = "layers.";

class FieldWriter {
 public:
  FieldWriter(const WrittenPlan& plan, WordsLeft& left)
      : plan_(plan), grid_(plan.grid_for("Megatron")), left_(left) {}

  std::vector<MegatronField> run() {
    add_degrees();
    add_stages();
    add_batch();
    add_state();
    add_recompute();
    add_offload();
    add_precision();
    add_optimizer();
    add_architecture();
    return std::move(out_);
  }

 private:
  void add(const char* of, const char* name, Json value) { out_.push_back({of, name, std::move(value)}); }

  void add_degrees() {
    add("model", "tensor_model_parallel_size", grid_.of("tp"));
    add("model", "pipeline_model_parallel_size", grid_.of("pp"));
    if (grid_.by_sequence()) add("model", "sequence_parallel", true);
    if (grid_.by_sequence() && plan_.plan.settings.overlap_tensor) add("model", "tp_comm_overlap", true);
    if (grid_.of("cp") > 1) add("model", "context_parallel_size", grid_.of("cp")), add_context();
    if (const int experts = grid_.of("ep"); experts > 1) {
      add("model", "expert_model_parallel_size", experts);
      add("model", "expert_tensor_parallel_size", grid_.said.degrees.of_experts_features());
    }
    left_.take({"dp", "tp", "pp", "cp", "ep", "etp", "sequence_parallel"});
    if (grid_.by_sequence())
      left_.take({"overlap_tensor"});
    else
      left_.leave({"overlap_tensor"}, "Megatron overlaps with sequence parallelism alone");
    left_.read_as("megatron-lm");
    left_.leave({"operators split otherwise"}, "Megatron splits as --set with these degrees does");
    left_.leave({"micro_batch_interleave"}, "there is no such setting");
  }

  void add_context() {
    if (!grid_.said.context) return;
    const auto [way, exchanged] = *grid_.said.context;
    const bool is_ring = way == ContextWay::ring;
    if (exchanged > 1 && !is_ring)
      return left_.leave({"context"}, "Megatron exchanges heads beside a ring alone");
    left_.take({"context"});
    add("model", "cp_comm_type",
        exchanged > 1                 ? "a2a+p2p"
        : is_ring                     ? "p2p"
        : way == ContextWay::exchange ? "a2a"
                                      : "allgather");
    if (exchanged > 1)
      add("model", "hierarchical_context_parallel_sizes", Json{exchanged, grid_.of("cp") / exchanged});
  }

  void add_stages() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    if (p.stages == 1) return;
    if (layers_of_parts(plan_).empty())
      throw error("Megatron cuts a network between layers, and {} has none; it can have one stage",
                  plan_.what.model);
    const std::string name = p.schedule.name;
    const std::string layout = megatron_layout(plan_);
    left_.take({"layers by stage"});
    if (!layout.empty())
      add("model", "pipeline_model_parallel_layout", layout);
    else if (p.schedule.chunks > 1)
      add("model", "num_virtual_stages_per_pipeline_rank", p.schedule.chunks);
    if (name == "1f1b" || name == "interleaved")
      left_.take({"schedule"});
    else
      left_.leave({"schedule"}, "there are 1f1b and interleaved");
    if (p.schedule.chunks > 1 && p.micro_batches % p.stages)
      left_.add(
          fmt::format("micro_batches={}: Megatron wants a multiple of {} where stages have several chunks",
                      p.micro_batches, p.stages));
    left_.leave({"layers cut"}, "Megatron cuts between layers; each is written where it begins");
  }

  void add_batch() {
    const std::int64_t samples = plan_.what.samples * plan_.plan.settings.pipelining.interleave;
    if (samples == 0) return;
    add("train", "micro_batch_size", samples / grid_.of("dp"));
    add("train", "global_batch_size", plan_.batch());
    left_.take({"micro_batches", "global_batch"});
  }

  void add_state() {
    const OptimizerParallel& zero = plan_.plan.settings.optimizer_parallel;
    if (zero.level == 0) return;
    if (zero.level == 1) {
      add("ddp", "use_distributed_optimizer", true);
    } else {
      add("ddp", "use_megatron_fsdp", true);
      add("ddp", "data_parallel_sharding_strategy", zero.level == 2 ? "optim_grads" : "optim_grads_params");
    }
    left_.take({"zero"});
    if (zero.threshold > 0) {
      left_.take({"zero_threshold"});
      left_.add(fmt::format("zero_threshold={}: Megatron shards all that there is", zero.threshold));
    }
    if (zero.group == 0 || grid_.of("dp") % zero.group) return;
    add("ddp", "num_distributed_optimizer_instances", grid_.of("dp") / zero.group);
    left_.take({"zero_group"});
  }

  void add_recompute() {
    const Recompute& recompute = plan_.plan.settings.recompute;
    if (recompute.modules.empty() && recompute.mode == RecomputeMode::full) {
      add("model", "recompute_granularity", "full");
      add("model", "recompute_method", "uniform");
      add("model", "recompute_num_layers", 1);
      left_.take({"recompute"});
    } else if (recompute.modules.empty() && recompute.mode == RecomputeMode::selected) {
      add("model", "recompute_granularity", "selective");
      left_.take({"recompute"});
      left_.add("recompute=selected: Megatron does attention's core again, here all is that is cheap");
    } else if (const int count = recomputed_layers(plan_); count > 0) {
      add("model", "recompute_granularity", "full");
      add("model", "recompute_method", "block");
      add("model", "recompute_num_layers", count);
      for (const RecomputedModule& m : recompute.modules) left_.take({"recompute of " + m.module});
    }
  }

  void add_offload() {
    const Offload& offload = plan_.plan.settings.offload;
    if (offload.optimizer > 0) {
      add("optimizer", "optimizer_cpu_offload", true);
      add("optimizer", "use_precision_aware_optimizer", true);  // it is refused without
      if (offload.optimizer < 1) add("optimizer", "optimizer_offload_fraction", offload.optimizer);
    }
    if (offload.parameters == 0 && offload.activations == 0) return left_.take({"offload"});
    left_.leave({"offload"},
                "Megatron keeps states of the optimizer on the host; activations by module, "
                "parameters not at all");
  }

  void add_precision() {
    const std::string precision = to_text(plan_.plan.origin.precision);
    if (precision == "bf16" || precision == "fp16") {
      add("model", precision.c_str(), true);
      left_.take({"precision"});
    }
    if (plan_.plan.origin.optimizer.reduces_short && precision == "bf16") {
      add("ddp", "grad_reduce_in_bf16", true);
      left_.take({"reduce_precision"});
    }
    const LossScale& scale = plan_.plan.origin.optimizer.loss_scale;
    if (!scale.is_on()) return;
    if (scale == dynamic_loss_scale())
      add("optimizer", "initial_loss_scale", scale.initial);
    else if (scale.interval == 0)
      add("optimizer", "loss_scale", scale.initial);
    if (scale == dynamic_loss_scale() || scale.interval == 0) left_.take({"loss_scale"});
  }

  void add_optimizer() {
    const OptimizerChoice& choice = plan_.plan.origin.optimizer;
    const auto setting = [&](const char* name) {
      return choice.attributes.number(name, default_setting(choice.name, name));
    };
    const bool is_adam = choice.name == "adamw" || (choice.name == "adam" && setting("weight_decay") == 0);
    const bool is_plain = choice.name == "sgd" || choice.name == "momentum";
    if (!is_adam && !is_plain)
      return left_.leave({"optimizer"}, choice.name == "adam" ? "Megatron's adam decays apart from gradients"
                                                              : "Megatron has adam and sgd alone");
    if (choice.name == "momentum" && setting("nesterov") != 0)
      return left_.leave({"optimizer"}, "Megatron's sgd has no such momentum");
    left_.take({"optimizer"});
    add("optimizer", "optimizer", is_adam ? "adam" : "sgd");
    add("optimizer", "lr", setting("rate"));
    add("optimizer", "weight_decay", setting("weight_decay"));
    if (is_adam) {
      add("optimizer", "adam_beta1", setting("beta1"));
      add("optimizer", "adam_beta2", setting("beta2"));
      add("optimizer", "adam_eps", setting("epsilon"));
    } else {
      add("optimizer", "sgd_momentum", choice.name == "sgd" ? 0.0 : setting("momentum"));
    }
    add("optimizer", "clip_grad", choice.clip_norm);
    left_.take({"clip_norm"});
  }

  void add_architecture() {
    const ModelSizes& sizes = plan_.what.sizes;
    if (sizes.family.empty())
      return left_.add(fmt::format("the network {}: Megatron has none by this name", plan_.what.model));
    const auto size = [&](const char* name, const char* key) { add("architecture", name, sizes.of(key)); };
    size("num_layers", "layers");
    size("hidden_size", "hidden");
    size("num_attention_heads", "heads");
    if (sizes.has("kv_heads") && sizes.of("kv_heads") != sizes.of("heads")) {
      add("architecture", "group_query_attention", true);
      size("num_query_groups", "kv_heads");
    }
    size("ffn_hidden_size", "ffn");
    size("seq_length", "seq");
    size("max_position_embeddings", "seq");
    size("vocab_size", "vocab");
    if (sizes.family == "gpt") return add("architecture", "position_embedding_type", "learned_absolute");
    add("architecture", "position_embedding_type", "rope");
    add("architecture", "normalization", "RMSNorm");
    for (const char* name : {"swiglu", "disable_bias_linear", "untie_embeddings_and_output_weights"})
      add("architecture", name, true);
    if (sizes.family == "qwen") add("architecture", "add_qkv_bias", true);
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft& left_;
  std::vector<MegatronField> out_;
};

}  // namespace

std::vector<MegatronField> megatron_fields(const WrittenPlan& plan, WordsLeft& left) {
  return FieldWriter(plan, left).run();
}

std::vector<int> layers_of_parts(const WrittenPlan& plan) {
  std::set<std::string> seen;
  std::vector<int> out;
  for (const PlacedPart& part : plan.parts) {
    out.push_back(0);
    for (const std::string& module : part.modules)
      if (module.starts_with(layers) && seen.insert(module).second) ++out.back();
  }
  return seen.empty() ? std::vector<int>{} : out;
}

std::string megatron_layout(const WrittenPlan& plan) {
  const std::vector<int> counts = layers_of_parts(plan);
  const auto begins_and_ends = [&] {
    const auto has_other = [&](const PlacedPart& part) {
      return std::ranges::any_of(part.modules, [](const std::string& m) { return !m.starts_with(layers); });
    };
    for (std::size_t p = 1; p + 1 < plan.parts.size(); ++p)
      if (has_other(plan.parts[p])) return false;
    return true;
  };
  const bool is_even = std::ranges::all_of(counts, [&](int n) { return n == counts.front(); });
  if (plan.parts.size() == 1 || (is_even && begins_and_ends())) return "";
  std::string out;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (p > 0) out += "|";
    if (p == 0) out += "E";
    if (counts[p] > 0) out += counts[p] == 1 ? "t" : fmt::format("t*{}", counts[p]);
    if (p + 1 == counts.size()) out += "L";
  }
  return out;
}

namespace {

/// `(tt|)*3` and `t*3` written out, commas left out. Source: Megatron-LM, PipelineParallelLayerLayout.parse_str_to_list.
std::string unrolled(const std::string& text) {
  constexpr std::size_t most = 1 << 16;
  const auto repeated = [&](std::string& out, const std::string& what, std::size_t& at) {
    std::size_t end = at + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    const auto times = to_integer(std::string_view(text).substr(at + 1, end - at - 1));
    if (!times || *times < 1 || out.size() + what.size() * static_cast<std::size_t>(*times) > most)
      throw error("layout '{}': behind * should stand how often", text);
    for (std::int64_t i = 0; i < *times; ++i) out += what;
    at = end;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::string what(1, text[at++]);
    if (what == ",") continue;
    if (what == "(") {
      const std::size_t end = text.find(')', at);
      if (end == text.npos) throw error("layout '{}': a ( is not closed", text);
      what = unrolled(text.substr(at, end - at));
      at = end + 1;
    }
    if (at < text.size() && text[at] == '*')
      repeated(out, what, at);
    else
      out += what;
  }
  return out;
}

}  // namespace

std::vector<int> layers_of_layout(const std::string& text) {
  const std::string all = unrolled(text);
  std::vector<int> out{0};
  for (const char c : all) {
    if (c == '|')
      out.push_back(0);
    else if (c == 't')
      ++out.back();
    else if (c == 'm')
      throw error("layout '{}': there are no layers that predict several tokens (m) yet", text);
    else if (c != 'E' && c != 'L')
      throw error("layout '{}': '{}' is none of E, t, L, m, |", text, c);
  }
  if (!all.starts_with('E') || !all.ends_with('L') || std::ranges::count(all, 'E') != 1 ||
      std::ranges::count(all, 'L') != 1)
    throw error("layout '{}': should begin with E and end with L, each once", text);
  return out;
}

int recomputed_layers(const WrittenPlan& plan) {
  const Recompute& recompute = plan.plan.settings.recompute;
  if (recompute.mode != RecomputeMode::none || recompute.modules.empty()) return -1;
  std::set<std::string> names;
  for (const RecomputedModule& m : recompute.modules) {
    if (!m.is_on || !m.nodes.empty() || m.options != RecomputeOptions{} || !m.module.starts_with(layers))
      return -1;
    for (const std::string& name : names_of_range(m.module)) names.insert(name);
  }
  std::size_t count = 0;
  int out = -1;
  for (const PlacedPart& part : plan.parts) {
    int first = 0;
    bool is_over = false;
    for (const std::string& module : part.modules) {
      if (!module.starts_with(layers)) continue;
      if (!names.contains(module)) {
        is_over = true;
        continue;
      }
      if (is_over) return -1;  // not the first ones
      ++first, ++count;
    }
    if (out >= 0 && first != out) return -1;
    out = first;
  }
  return count == names.size() ? out : -1;
}

}  // namespace shardwright
