// Megatron-LM: flags of pretrain_gpt.py, as they stand in a script. Names are those of its dataclasses in kebab case.
// Source: megatron/training/arguments.py and megatron/core/{model_parallel_config,transformer/transformer_config}.py.

#include <algorithm>
#include <array>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/megatron_flags.h"
#include "shardwright/exchange/megatron_settings.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/recipe_words.h"

namespace shardwright::formats {
namespace {

std::string kebab(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return shell_quoted(value.get<std::string>());
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& part : value) parts.push_back(text_of(part));
    return join(parts, " ");
  }
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

Exported write(const WrittenPlan& plan) {
  WordsLeft left(plan);
  const std::vector<MegatronField> fields = megatron_fields(plan, left);
  Exported out{.text = head_text(plan, "Megatron-LM", left.lines()), .not_carried = left.lines()};
  out.text += "MEGATRON_ARGS=(\n";
  for (const MegatronField& f : fields) {
    const bool is_switch = f.value.is_boolean();
    out.text += fmt::format("    --{}{}\n", kebab(f.name), is_switch ? "" : " " + text_of(f.value));
  }
  out.text += ")\n";
  return out;
}

// ---- reading ----

class Reader {
 public:
  explicit Reader(const RecipeFile& file) : file_(file), flags_(file.text) {}

  Recipe run() {
    read_degrees();
    read_stages();
    read_batch();
    read_state();
    read_recompute();
    read_optimizer();
    read_model();
    set_.add("framework", framework());
    if (!flags_.idle().empty())
      note(fmt::format("{}: {} no effect on the plan", join(flags_.idle(), ", "),
                       flags_.idle().size() == 1 ? "has" : "have"));
    out_.say("--set", set_.text(), "its flags");
    return std::move(out_);
  }

 private:
  void note(std::string line) { out_.not_heeded.push_back(std::move(line)); }

  /// The profile that counts memory as these flags have it.
  std::string framework() {
    const std::array types{"exp-avg-dtype", "exp-avg-sq-dtype", "main-grads-dtype"};
    const bool is_short = flags_.is_on("use-precision-aware-optimizer") &&
                          std::ranges::all_of(types, [&](const char* t) { return flags_.text(t) == "bf16"; });
    const bool is_fused = flags_.is_on("cross-entropy-loss-fusion");
    const bool is_other =
        flags_.is_on("use-precision-aware-optimizer") ||
        std::ranges::any_of(types, [&](const char* t) { return flags_.has(t) && flags_.text(t) != "fp32"; });
    if (is_other && !is_short)
      note(
          "--use-precision-aware-optimizer: gradients and moments count as f32 unless --exp-avg-dtype, "
          "--exp-avg-sq-dtype and --main-grads-dtype are bf16");
    if (is_short && is_fused) note("--cross-entropy-loss-fusion: its copies of scores do not count");
    return is_short ? "megatron-bridge" : is_fused ? "megatron-lm-fused-loss" : "megatron-lm";
  }

  void read_degrees() {
    const Keyed tensor = flags_.count("tensor-model-parallel-size"),
                stages = flags_.count("pipeline-model-parallel-size"),
                context = flags_.count("context-parallel-size"),
                experts = flags_.count("expert-model-parallel-size");
    std::vector<Keyed> factors{tensor, stages};
    if (context.value > 1) factors.push_back(context);
    data_ = data_degree(file_.devices, factors);
    set_.add("dp", data_);
    set_.add("tp", tensor.value);
    set_.add("pp", stages.value);
    if (context.value > 1) set_.add("cp", context.value);
    read_context(context);
    if (experts.value > 1) {
      set_.add("ep", experts.value);
      set_.add("etp", flags_.count("expert-tensor-parallel-size", tensor.value).value);
    }
    const bool by_sequence = flags_.is_on("sequence-parallel");
    if (by_sequence && tensor.value > 1) set_.add("sequence_parallel", 1);
    if (flags_.is_on("tp-comm-overlap") && tensor.value > 1) set_.add("overlap_tensor", 1);
    if (by_sequence && tensor.value == 1)
      note("--sequence-parallel has no effect: --tensor-model-parallel-size is 1");
    if (flags_.is_on("tp-comm-overlap") && tensor.value == 1)
      note("--tp-comm-overlap has no effect: --tensor-model-parallel-size is 1");
    stages_ = stages;
  }

  /// How attention sees the whole sequence.
  void read_context(const Keyed& context) {
    const std::string key = "cp-comm-type", sizes_key = "hierarchical-context-parallel-sizes";
    for (const std::string& idle : {key, sizes_key})
      if (context.value == 1 && flags_.has(idle))
        note(fmt::format("--{} has no effect: {} is 1", idle, context.key));
    if (context.value == 1) return;
    const std::vector<std::string> of_layers =
        flags_.has(key) ? flags_.list(key) : std::vector<std::string>{"p2p"};
    const std::string way = of_layers.front();
    if (std::ranges::any_of(of_layers, [&](const std::string& other) { return other != way; }))
      throw error("--{} {}: layers go different ways, which a plan cannot say", key, join(of_layers, " "));
    static const std::map<std::string, std::string> ways{
        {"p2p", "ring"}, {"a2a", "exchange"}, {"allgather", "gather"}};
    if (const auto it = ways.find(way); it != ways.end()) {
      if (flags_.has(sizes_key)) note(fmt::format("--{} has no effect: --{} is {}", sizes_key, key, way));
      return set_.add("context", it->second);
    }
    if (way != "a2a+p2p")
      throw error("--{} {}: there are p2p, a2a, allgather and a2a+p2p", key, flags_.text(key));
    std::vector<std::int64_t> sizes;
    if (flags_.has(sizes_key))
      for (const std::string& size : flags_.list(sizes_key))
        sizes.push_back(Given{"--" + sizes_key, size}.integer(1, context.value));
    if (sizes.size() != 2 || sizes[0] * sizes[1] != context.value)
      throw error("--{} a2a+p2p: --{} should be two numbers whose product is {} {}", key, sizes_key,
                  context.key, context.value);
    set_.add("context", context_of(sizes[0], context.value));
  }

  /// Layers of each chunk, where they are not shared out evenly.
  void read_stages() {
    if (stages_.value == 1) {
      parts_ = {static_cast<int>(flags_.count("num-layers", 0).value)};
      return;
    }
    std::vector<int> layers;
    std::int64_t chunks = 1;
    if (flags_.has("pipeline-model-parallel-layout"))
      layers = layers_by_layout(chunks);
    else
      layers = layers_by_counts(chunks);
    if (chunks > 1) set_.add("schedule", fmt::format("interleaved:{}", chunks));
    parts_ = layers;
    const bool is_even = std::ranges::all_of(layers, [&](int n) { return n == layers.front(); });
    if (!is_even) set_.add_stages(layers);
  }

  std::vector<int> layers_by_layout(std::int64_t& chunks) {
    const std::string key = "--pipeline-model-parallel-layout";
    std::vector<int> layers = layers_of_layout(flags_.text(key.substr(2)));
    if (layers.size() % at(static_cast<int>(stages_.value)))
      throw error("{}: has {} chunks, which {} does not divide", key, layers.size(), product_text({stages_}));
    chunks = static_cast<std::int64_t>(layers.size()) / stages_.value;
    std::int64_t total = 0;
    for (int n : layers) total += n;
    const Keyed said = flags_.count("num-layers", total);
    if (said.value != total) throw error("{} {}: {} has {} layers", said.key, said.value, key, total);
    return layers;
  }

  std::vector<int> layers_by_counts(std::int64_t& chunks) {
    const Keyed layers = flags_.count("num-layers", 0),
                of_chunk = flags_.count("num-layers-per-virtual-pipeline-stage", 0);
    Keyed virtuals = flags_.count("num-virtual-stages-per-pipeline-rank");
    if (layers.value == 0) {  // the model says it
      chunks = virtuals.value;
      if (of_chunk.value > 0)
        throw error("{}: how many chunks that are, --num-layers says; add it", of_chunk.key);
      return std::vector<int>(static_cast<std::size_t>(stages_.value * chunks), 0);
    }
    if (of_chunk.value > 0) {
      const int of_stage = layers_of_chunk(layers, {stages_});
      virtuals = {"chunks of " + of_chunk.key + " " + std::to_string(of_chunk.value),
                  layers_of_chunk({"layers of a stage", of_stage}, {of_chunk})};
    }
    chunks = virtuals.value;
    const int parts = static_cast<int>(stages_.value * chunks);
    std::vector<int> out(at(parts), 0);
    const Keyed first = flags_.count("decoder-first-pipeline-num-layers", -1),
                last = flags_.count("decoder-last-pipeline-num-layers", -1);
    if (flags_.has(first.key.substr(2)) || flags_.has(last.key.substr(2)))
      return by_ends(layers, first, last, parts);
    const int embedding = flags_.is_on("account-for-embedding-in-pipeline-split") ? 1 : 0;
    const int loss = flags_.is_on("account-for-loss-in-pipeline-split") ? 1 : 0;
    std::vector<Keyed> factors{stages_};
    if (chunks > 1) factors.push_back(virtuals);
    Keyed all = layers;
    all.value += embedding + loss;
    if (embedding + loss > 0) all.key += " with embedding and loss as layers,";
    std::ranges::fill(out, layers_of_chunk(all, factors));
    out.front() -= embedding;
    out.back() -= loss;
    return out;
  }

  std::vector<int> by_ends(const Keyed& layers, const Keyed& first, const Keyed& last, int parts) const {
    const bool has_first = flags_.has(first.key.substr(2)), has_last = flags_.has(last.key.substr(2));
    const std::int64_t ends = (has_first ? first.value : 0) + (has_last ? last.value : 0);
    const int between = parts - has_first - has_last;
    const std::int64_t left = layers.value - ends;
    if (between == 0 ? left != 0 : left < 0 || left % between)
      throw error(
          "{} {}: leaves {} layers for the {} stages between the first and the last, which do not "
          "share them evenly",
          layers.key, layers.value, left, between);
    std::vector<int> out(at(parts), between ? static_cast<int>(left / between) : 0);
    if (has_first) out.front() = static_cast<int>(first.value);
    if (has_last) out.back() = static_cast<int>(last.value);
    return out;
  }

  void read_batch() {
    if (!flags_.has("micro-batch-size")) throw error("--micro-batch-size is missing");
    const Keyed micro = flags_.count("micro-batch-size"),
                global = flags_.count("global-batch-size", micro.value * data_);
    const std::int64_t count = micro_batches_of(global, micro, data_);
    set_.add("micro_batches", count);
    set_.add("global_batch", global.value);
  }

  void read_state() {
    int level = flags_.is_on("use-distributed-optimizer") ? 1 : 0;
    if (flags_.is_on("use-megatron-fsdp")) {
      static const std::map<std::string, int> levels{
          {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
      const std::string strategy = flags_.text("data-parallel-sharding-strategy");
      const auto it = levels.find(strategy.empty() ? "no_shard" : strategy);
      if (it == levels.end())
        throw error(
            "--data-parallel-sharding-strategy {}: there are no_shard, optim, optim_grads, "
            "optim_grads_params",
            strategy);
      level = it->second;
    } else if (flags_.has("data-parallel-sharding-strategy")) {
      note("--data-parallel-sharding-strategy has no effect: --use-megatron-fsdp is not there");
    }
    set_.add("zero", level);
    if (level > 0) set_.add("zero_threshold", 0);  // it shards all that there is
    const Keyed instances = flags_.count("num-distributed-optimizer-instances");
    if (instances.value == 1 || level == 0) return;
    if (data_ % instances.value)
      throw error("{} {}: does not divide the {} of data parallelism", instances.key, instances.value, data_);
    set_.add("zero_group", data_ / instances.value);
  }

  void read_recompute() {
    std::string granularity = flags_.text("recompute-granularity");
    if (flags_.is_on("recompute-activations")) granularity = "selective";
    if (granularity.empty()) {
      set_.add("recompute", "none");
    } else if (granularity == "selective") {
      set_.add("recompute", "selected");
      if (flags_.has("recompute-modules"))
        note(fmt::format("--recompute-modules {}: what is computed again here is all that is cheap",
                         join(flags_.list("recompute-modules"), " ")));
    } else if (granularity == "full") {
      read_full_recompute();
    } else {
      throw error("--recompute-granularity {}: should be full or selective", granularity);
    }
  }

  void read_full_recompute() {
    const std::string method = flags_.text("recompute-method");
    const Keyed count = flags_.count("recompute-num-layers");
    if (method == "block" && !parts_.empty() && std::ranges::any_of(parts_, [](int n) { return n > 0; }))
      return add_blocks(static_cast<int>(count.value));
    if (method == "block")
      note(fmt::format("{} {}: of which layers, --num-layers says; all are computed again", count.key,
                       count.value));
    if (!method.empty() && method != "block" && method != "uniform")
      throw error("--recompute-method {}: should be uniform or block", method);
    set_.add("recompute", "full");
    if (method == "uniform" && count.value > 1) set_.add("recompute_together", count.value);
  }

  void add_blocks(int count) {
    set_.add("recompute", "none");
    int first = 0;
    for (const int layers : parts_) {
      if (const int again = std::min(count, layers); again > 0)
        set_.add(layer_range(first, again), "recompute");
      first += layers;
    }
  }

  void say(const char* flag, const std::string& name) {
    if (flags_.has(name)) out_.say(flag, flags_.text(name), "--" + name);
  }

  void read_optimizer() {
    if (flags_.is_on("bf16") && flags_.is_on("fp16")) throw error("--bf16 and --fp16 exclude each other");
    const bool is_half = flags_.is_on("fp16");
    out_.say("--precision",
             flags_.is_on("bf16") ? "bf16"
             : is_half            ? "fp16"
                                  : "f32",
             flags_.is_on("bf16") ? "--bf16"
             : is_half            ? "--fp16"
                                  : "no --bf16 or --fp16");
    if (flags_.is_on("grad-reduce-in-bf16")) out_.say("--reduce-precision", "short", "--grad-reduce-in-bf16");
    const std::string scale = flags_.text("initial-loss-scale");
    if (flags_.has("loss-scale"))
      say("--loss-scale", "loss-scale");
    else if (is_half && !scale.empty())
      out_.say("--loss-scale",
               to_number(scale) == dynamic_loss_scale().initial ? "dynamic" : scale + " by 2 every 1000",
               "--initial-loss-scale");
    const std::string name = flags_.has("optimizer") ? flags_.text("optimizer") : "adam";
    const double momentum =
        flags_.has("sgd-momentum") ? Given{"--sgd-momentum", flags_.text("sgd-momentum")}.number() : 0.9;
    if (name != "adam" && name != "sgd") throw error("--optimizer {}: there are adam and sgd", name);
    const bool is_adam = name == "adam";
    out_.say("--optimizer", is_adam ? "adamw" : momentum > 0 ? "momentum" : "sgd", "--optimizer");
    if (!is_adam && momentum > 0) out_.say("--momentum", fmt::format("{}", momentum), "--sgd-momentum");
    say("--lr", "lr");
    say("--weight-decay", "weight-decay");
    if (is_adam) {
      say("--beta1", "adam-beta1");
      say("--beta2", "adam-beta2");
      say("--epsilon", "adam-eps");
    }
    const std::string clip = flags_.has("clip-grad") ? flags_.text("clip-grad") : "1.0";
    if (Given{"--clip-grad", clip}.number() > 0) out_.say("--clip-norm", clip, "--clip-grad");
    if (!flags_.is_on("optimizer-cpu-offload")) return;
    const std::string share = flags_.text("optimizer-offload-fraction");
    set_.add("offload", share.empty() ? "{optimizer}" : fmt::format("{{optimizer:{}}}", share));
  }

  void size(const char* ours, const std::string& name) {
    if (flags_.has(name)) out_.sizes.push_back({ours, flags_.count(name).value, "--" + name});
  }

  void read_model() {
    size("layers", "num-layers");
    size("hidden", "hidden-size");
    size("heads", "num-attention-heads");
    if (flags_.is_on("group-query-attention")) size("kv_heads", "num-query-groups");
    size("ffn", "ffn-hidden-size");
    size("seq", "seq-length");
    size("vocab", flags_.has("padded-vocab-size") ? "padded-vocab-size" : "vocab-size");
    const bool is_gated = flags_.is_on("swiglu");
    if (is_gated && !flags_.has("ffn-hidden-size") && flags_.has("hidden-size"))
      out_.sizes.push_back({"ffn", flags_.count("hidden-size").value * 8 / 3 / 64 * 64, "--hidden-size"});
    const std::string positions = flags_.text("position-embedding-type");
    if (is_gated && flags_.text("normalization") == "RMSNorm" && positions == "rope")
      out_.family = flags_.is_on("add-qkv-bias") ? "qwen" : "llama";
    else if (!is_gated && (positions.empty() || positions == "learned_absolute"))
      out_.family = "gpt";
  }

  const RecipeFile& file_;
  MegatronFlags flags_;
  Recipe out_;
  SetWords set_;
  Keyed stages_;
  std::int64_t data_ = 1;
  std::vector<int> parts_;  // layers of each chunk; zeros where the file does not say how many there are
};

Recipe read(const RecipeFile& file) { return Reader(file).run(); }

bool is_one(const RecipeFile& file) {
  return file.text.find("--tensor-model-parallel-size") != file.text.npos ||
         file.text.find("--pipeline-model-parallel-size") != file.text.npos ||
         file.text.find("--micro-batch-size") != file.text.npos;
}

}  // namespace

std::vector<PlanFormat> megatron() {
  return {{.name = "megatron",
           .doc = "flags of Megatron-LM, as a list of bash",
           .write = write,
           .read = read,
           .is_one = is_one}};
}

}  // namespace shardwright::formats
