// MindFormers: the YAML of a training. Read by what reads it for --config (mindformers/config_file.h), and beside that the
// degrees, which a recipe fixes where a configuration leaves them to a search. Source: docs of configuration,
// configs/qwen3/pretrain_qwen3_32b_4k.yaml.

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/exchange/megatron_settings.h"
#include "shardwright/exchange/mindformers/config_file.h"
#include "shardwright/exchange/mindformers/config_schedule.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/recipe_words.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/plan/optimizer_parallel.h"

namespace shardwright::formats {
namespace {

/// Sizes of a model, as the suite's models and ours call them.
constexpr std::array<std::pair<const char*, const char*>, 8> sizes{{{"num_layers", "layers"},
                                                                    {"hidden_size", "hidden"},
                                                                    {"num_heads", "heads"},
                                                                    {"num_attention_heads", "heads"},
                                                                    {"n_kv_heads", "kv_heads"},
                                                                    {"intermediate_size", "ffn"},
                                                                    {"vocab_size", "vocab"},
                                                                    {"seq_length", "seq"}}};

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), grid_(plan.grid_for("MindFormers")), left_(plan) {}

  Exported run() {
    left_.read_as("mindformers");
    left_.take({"layers by stage"});
    const std::string body = batch() + parallel() + degrees() + recompute() + model() + optimizer();
    left_.leave({"operators split otherwise"}, "MindFormers splits as --set with these degrees does");
    left_.leave({"layers cut"}, "MindFormers cuts between layers; each is written where it begins");
    left_.leave({"offload"}, "swap_config is by layer and operator");
    const std::vector<std::string> lines = left_.lines();
    return {.text = head_text(plan_, "MindFormers", lines) + body, .not_carried = lines};
  }

 private:
  std::string batch() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    const std::int64_t samples = plan_.what.samples;
    if (samples == 0) return "";
    if (samples % grid_.of("dp"))
      throw error("MindFormers: dp={} does not divide the {} samples of a micro-batch", grid_.of("dp"),
                  samples);
    left_.take({"global_batch", "micro_batches", "micro_batch_interleave"});
    std::string out = fmt::format("runner_config:\n  batch_size: {}\n", samples / grid_.of("dp"));
    if (p.stages == 1) out += fmt::format("  gradient_accumulation_steps: {}\n", p.micro_batches);
    return out + fmt::format("micro_batch_interleave_num: {}\n", p.interleave);
  }

  std::string parallel() {
    const OptimizerParallel& zero = plan_.plan.settings.optimizer_parallel;
    std::string out = fmt::format(
        "use_parallel: {}\nparallel:\n  parallel_mode: 1\n  full_batch: True\n  enable_parallel_optimizer: "
        "{}\n",
        plan_.plan.devices() > 1 ? "True" : "False", zero.level > 0 ? "True" : "False");
    if (zero.level > 0) {
      out += fmt::format(
          "  parallel_optimizer_config:\n    optimizer_level: level{}\n    parallel_optimizer_threshold: {}\n"
          "    optimizer_weight_shard_size: {}\n",
          zero.level, zero.threshold / 1024, zero.group > 0 ? zero.group : -1);
      left_.take({"zero", "zero_group"});
      if (zero.threshold % 1024 == 0) left_.take({"zero_threshold"});
    }
    const Pipelining& p = plan_.plan.settings.pipelining;
    if (p.stages == 1) return out;
    const std::string& name = p.schedule.name;
    const bool is_known = name == "1f1b" || name == "gpipe" || name == "interleaved" || name == "zb-v";
    if (is_known) left_.take({"schedule"});
    left_.leave({"schedule"}, "there are gpipe, 1f1b, interleaved and zb-v");
    return out + fmt::format("  pipeline_config:\n    pipeline_interleave: {}\n    pipeline_scheduler: {}\n",
                             name == "interleaved" ? "True" : "False",
                             name == "zb-v"    ? "zero_bubble_v"
                             : name == "gpipe" ? "gpipe"
                                               : "1f1b");
  }

  std::string degrees() {
    const Pipelining& p = plan_.plan.settings.pipelining;
    left_.take({"dp", "tp", "pp", "sequence_parallel"});
    std::string out = fmt::format(
        "parallel_config:\n  data_parallel: {}\n  model_parallel: {}\n  pipeline_stage: {}\n  "
        "context_parallel: 1\n"
        "  expert_parallel: 1\n  use_seq_parallel: {}\n  vocab_emb_dp: False\n",
        grid_.of("dp"), grid_.of("tp"), p.stages, grid_.by_sequence() ? "True" : "False");
    return p.stages > 1 ? out + fmt::format("  micro_batch_num: {}\n", p.micro_batches) : out;
  }

  std::string recompute() {
    const Recompute& recompute = plan_.plan.settings.recompute;
    if (recompute.modules.empty())
      left_.take({"recompute", "recompute_communication", "recompute_shard_kept"});
    const bool is_full = recompute.mode == RecomputeMode::full,
               is_selected = recompute.mode == RecomputeMode::selected;
    return fmt::format(
        "recompute_config:\n  recompute: {}\n  select_recompute: {}\n  mp_comm_recompute: {}\n"
        "  select_comm_recompute: {}\n  recompute_slice_activation: {}\n",
        word(is_full), word(is_selected), word(!is_full || recompute.options.communication),
        word(is_selected && recompute.options.communication), word(recompute.options.shard_kept));
  }
  static const char* word(bool is_on) { return is_on ? "True" : "False"; }

  std::string model() {
    std::string out = "model:\n  model_config:\n";
    const ModelSizes& has = plan_.what.sizes;
    for (const auto& [theirs, ours] : sizes)
      if (has.has(ours) && std::string_view(theirs) != "num_attention_heads")
        out += fmt::format("    {}: {}\n", theirs, has.of(ours));
    if (has.sizes.empty()) left_.add(fmt::format("the network {}: its sizes", plan_.what.model));
    const Pipelining& p = plan_.plan.settings.pipelining;
    if (p.schedule.name == "interleaved" && p.stages > 1)
      out += fmt::format("    pp_interleave_num: {}\n", p.schedule.chunks);
    out += offset() + precision();
    return out;
  }

  /// How many layers each part has more than its even share.
  std::string offset() {
    const std::vector<int> counts = layers_of_parts(plan_);
    if (counts.size() < 2) return "";
    int total = 0;
    for (const int n : counts) total += n;
    const int parts = static_cast<int>(counts.size()), stages = plan_.plan.settings.pipelining.stages;
    std::vector<std::string> rows, row;
    for (int i = 0; i < parts; ++i) {
      row.push_back(std::to_string(counts[at(i)] - total / parts));
      if ((i + 1) % stages == 0) rows.push_back("[" + join(row, ", ") + "]"), row.clear();
    }
    const std::string all = rows.size() == 1 ? rows.front() : "[" + join(rows, ", ") + "]";
    const bool is_even = std::ranges::all_of(counts, [&](int n) { return n == counts.front(); });
    return is_even ? "" : "    offset: " + all + "\n";
  }

  std::string precision() {
    const std::string name = to_text(plan_.plan.origin.precision);
    const bool is_pure = name.starts_with("pure-");
    const std::string type = name.ends_with("bf16")   ? "bfloat16"
                             : name.ends_with("fp16") ? "float16"
                                                      : "float32";
    if (name.starts_with("products-") || name == "f64") return "";
    left_.take({"precision"});
    return fmt::format("    compute_dtype: {}\n    param_init_type: {}\n", type, is_pure ? type : "float32");
  }

  std::string optimizer() {
    const OptimizerChoice& choice = plan_.plan.origin.optimizer;
    const auto setting = [&](const char* name) {
      return choice.attributes.number(name, default_setting(choice.name, name));
    };
    left_.take({"clip_norm", "loss_scale", "reduce_precision"});
    std::string out = "optimizer:\n";
    const bool is_known = choice.name != "adagrad" && choice.name != "lazy_adam";
    if (is_known)
      left_.take({"optimizer"});
    else
      left_.leave(
          {"optimizer"},
          fmt::format("what MindFormers calls {} is not known here; its type is left out", choice.name));
    if (!is_known)
      out += fmt::format("  eps: {}\n", setting("epsilon"));
    else if (choice.name == "adamw" || choice.name == "adam")
      out +=
          fmt::format("  type: {}\n  betas: [{}, {}]\n  eps: {}\n", choice.name == "adamw" ? "AdamW" : "Adam",
                      setting("beta1"), setting("beta2"), setting("epsilon"));
    else
      out += fmt::format("  type: {}\n{}", choice.name == "sgd" ? "SGD" : "Momentum",
                         choice.name == "sgd" ? "" : fmt::format("  momentum: {}\n", setting("momentum")));
    out += fmt::format("  weight_decay: {}\n", setting("weight_decay"));
    out += fmt::format("lr_schedule:\n  type: ConstantWarmUpLR\n  learning_rate: {}\n", setting("rate"));
    out += fmt::format("runner_wrapper:\n  use_clip_grad: {}\n", word(choice.clip_norm > 0));
    if (choice.clip_norm > 0) out += fmt::format("  max_grad_norm: {}\n", choice.clip_norm);
    const LossScale& scale = choice.loss_scale;
    if (scale.is_on() && scale.interval > 0)
      out += fmt::format(
          "  scale_sense: {{type: DynamicLossScaleUpdateCell, loss_scale_value: {}, scale_factor: {}, "
          "scale_window: {}}}\n",
          scale.initial, scale.factor, scale.interval);
    else if (scale.is_on())
      out += fmt::format("  scale_sense: {}\n", scale.initial);
    return out;
  }

  const WrittenPlan& plan_;
  const Grid& grid_;
  WordsLeft left_;
};

Exported write(const WrittenPlan& plan) { return Writer(plan).run(); }

// ---- reading ----

class Reader {
 public:
  explicit Reader(const RecipeFile& file)
      : file_(file),
        config_(load_config(file.path)),
        top_(parse_yaml(file.text), ""),
        degrees_(top_.map("parallel_config")),
        model_(model_config_of(top_)) {}

  Recipe run() {
    const bool is_alone = !top_.flag("use_parallel").value_or(true);
    check_mode();
    const std::int64_t stages = is_alone ? 1 : count("pipeline_stage").value;
    read_degrees(is_alone, stages);
    read_model();
    if (stages > 1) read_stages(static_cast<int>(stages));
    take_settings();
    if (const auto batch = global_batch(config_.batch, devices())) set_.add("global_batch", *batch);
    set_.add("micro_batches", config_.batch.parts);
    set_.add("framework", "mindformers");
    out_.say("--set", set_.text(), "parallel_config");
    return std::move(out_);
  }

 private:
  Keyed count(const char* key) const { return {degrees_.path_of(key), degrees_.count(key).value_or(1)}; }
  /// Among which a batch is shared out that is no full one.
  std::int64_t devices() const { return config_.batch.is_full ? config_.batch.data_parallel : file_.devices; }

  void check_mode() const {
    for (const Config::Said& said : config_.said)
      if (said.flag == "--parallel" && said.text == "auto_parallel")
        throw error(
            "{}: a search chooses the degrees there, so there is no plan to read; plan MODEL --config {} "
            "makes one",
            said.key, file_.path);
  }

  void read_degrees(bool is_alone, std::int64_t stages) {
    const Keyed data = count("data_parallel"), tensor = count("model_parallel"),
                context = count("context_parallel"), experts = count("expert_parallel"),
                pipeline{degrees_.path_of("pipeline_stage"), stages};
    if (is_alone) {
      for (const char* degree : {"dp", "tp", "pp"}) set_.add(degree, 1);
      return;
    }
    std::vector<Keyed> factors{tensor, pipeline};
    if (context.value > 1) factors.push_back(context);
    const std::int64_t rest = data_degree(file_.devices, factors);
    const bool is_data_only = std::ranges::any_of(config_.said, [](const Config::Said& said) {
      return said.flag == "--parallel" && said.text == "data_parallel";
    });
    if (!is_data_only && rest != data.value) {
      factors.insert(factors.begin(), data);
      throw error("{} = {}: but the cluster has {} devices; {} {} would use them", product_text(factors),
                  product_of(factors), file_.devices, data.key, rest);
    }
    set_.add("dp", rest);
    set_.add("tp", tensor.value);
    set_.add("pp", stages);
    if (context.value > 1) set_.add("cp", context.value), read_context(context);
    if (experts.value > 1) set_.add("ep", experts.value);
    if (degrees_.is_on("use_seq_parallel") && tensor.value > 1) set_.add("sequence_parallel", 1);
  }

  void read_context(const Keyed& context) {
    const std::string key = degrees_.path_of("context_parallel_algo"),
                      algorithm = degrees_.text("context_parallel_algo").value_or("colossalai_cp");
    const Keyed inner = count("ulysses_degree_in_cp");
    if (algorithm != "hybrid_cp" && degrees_.has("ulysses_degree_in_cp"))
      out_.not_heeded.push_back(fmt::format("{} has no effect: {} is {}", inner.key, key, algorithm));
    if (algorithm == "colossalai_cp" || algorithm == "ulysses_cp")
      return set_.add("context", algorithm == "ulysses_cp" ? "exchange" : "ring");
    if (algorithm != "hybrid_cp")
      throw error("{} {}: there are colossalai_cp, ulysses_cp and hybrid_cp", key, algorithm);
    if (context.value % inner.value)
      throw error("{} {}: does not divide {} {}", inner.key, inner.value, context.key, context.value);
    set_.add("context", context_of(inner.value, context.value));
  }

  void read_model() {
    for (const auto& [theirs, ours] : sizes)
      if (const auto n = model_.count(theirs)) out_.sizes.push_back({ours, *n, model_.path_of(theirs)});
    const std::string type =
        lower(model_.text("type").value_or("")) + lower(model_.text("model_type").value_or(""));
    if (type.find("llama") != type.npos) out_.family = "llama", add_inner_size();
    if (type.find("gpt") != type.npos) out_.family = "gpt";
  }

  /// Of the suite's LlamaConfig, where the file does not say it: two thirds of four times the width, times a factor and
  /// a hundredth, rounded up.
  void add_inner_size() {
    const auto width = model_.count("hidden_size");
    if (model_.has("intermediate_size") || !width) return;
    const std::int64_t step = model_.count("multiple_of").value_or(256);
    auto inner = static_cast<double>(8 * *width / 3);
    if (const auto factor = model_.positive("ffn_dim_multiplier"))
      inner = std::floor(inner * (*factor + 0.01));
    const std::int64_t steps = (static_cast<std::int64_t>(inner) + step - 1) / step;
    out_.sizes.push_back({"ffn", steps * step, model_.path_of("multiple_of")});
  }

  /// `offset: [-1, 1]`, of several chunks a row each.
  void read_stages(int stages) {
    const YAML::Node offset = model_.at("offset");
    if (!offset.IsSequence()) return;
    std::vector<int> more;
    for (const YAML::Node& part : offset) {
      if (!part.IsSequence()) more.push_back(integer(part));
      for (std::size_t i = 0; part.IsSequence() && i < part.size(); ++i) more.push_back(integer(part[i]));
    }
    const auto layers = std::ranges::find(out_.sizes, "layers", &Recipe::Size::name);
    if (layers == out_.sizes.end())
      throw error("{} says nothing without num_layers", model_.path_of("offset"));
    const auto parts = static_cast<std::int64_t>(more.size());
    if (parts == 0 || parts % stages)
      throw error("{}: has {} numbers, but there are {} stages", model_.path_of("offset"), parts, stages);
    int total = 0;
    for (int& n : more) total += n += static_cast<int>(layers->value / parts);
    if (total != layers->value)
      throw error("{}: makes {} layers, but {} is {}", model_.path_of("offset"), total, layers->key,
                  layers->value);
    set_.add_stages(more);
  }
  int integer(const YAML::Node& node) const {
    const auto n = node.IsScalar() ? to_integer(node.Scalar()) : std::nullopt;
    if (!n) throw error("{}: should be a list of integers", model_.path_of("offset"));
    return static_cast<int>(*n);
  }

  void add_zero(const OptimizerParallel& zero) {
    set_.add("zero", zero.level);
    set_.add("zero_threshold", zero.threshold);
    if (zero.group > 0) set_.add("zero_group", zero.group);
  }

  /// What of the configuration is of a plan whose degrees are fixed.
  void take_settings() {
    constexpr std::array kept{
        "--comm-fusion", "--recompute",        "--schedule",   "--micro-batch-interleave",
        "--precision",   "--reduce-precision", "--loss-scale", "--optimizer",
        "--lr",          "--weight-decay",     "--beta1",      "--beta2",
        "--epsilon",     "--momentum",         "--clip-norm"};
    for (const Config::Said& said : config_.said) {
      if (said.is_usual || said.is_off) continue;
      if (said.flag == "--optimizer-parallel") add_zero(parse_optimizer_parallel({said.key, said.text}));
      if (std::ranges::find(kept, said.flag) == kept.end()) continue;
      out_.say(said.flag, said.text, said.key);
    }
    for (const std::string& line : config_.notices) {
      const bool is_read_here = line.starts_with("model_parallel ") ||
                                line.starts_with("use_seq_parallel ") ||
                                line.starts_with("context_parallel ");
      if (!is_read_here) out_.not_heeded.push_back(line);
    }
  }

  const RecipeFile& file_;
  Config config_;
  YamlMap top_, degrees_, model_;
  Recipe out_;
  SetWords set_;
};

Recipe read(const RecipeFile& file) { return Reader(file).run(); }

bool is_one(const RecipeFile& file) {
  return file.text.find("parallel_config:") != file.text.npos ||
         file.text.find("use_parallel:") != file.text.npos;
}

}  // namespace

std::vector<PlanFormat> mindformers() {
  return {{.name = "mindformers",
           .doc = "the YAML of a training with MindFormers",
           .write = write,
           .read = read,
           .is_one = is_one}};
}

}  // namespace shardwright::formats
