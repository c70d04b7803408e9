#include "shardwright/cli/config_file.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/config_precision.h"
#include "shardwright/cost/yaml_text.h"
#include "shardwright/plan/comm_fusion.h"

namespace shardwright {
namespace {

constexpr std::int64_t most = 1LL << 40;

using Names = std::vector<std::string>;

// Keys that are read are marked in the functions below; the others of these lists are known and passed over.
const Names& top_keys() {
  static const Names names{"amp_level",
                           "autotune_per_step",
                           "auto_trans_ckpt",
                           "auto_tune",
                           "batch_size",
                           "calculate_per_token_loss",
                           "callbacks",
                           "context",
                           "data_simplification",
                           "do_eval",
                           "enable_mindio_ttp_save_ckpt",
                           "eval_callbacks",
                           "eval_dataset",
                           "eval_dataset_task",
                           "eval_epoch_interval",
                           "eval_step_interval",
                           "filepath_prefix",
                           "generation",
                           "gradient_accumulation_steps",
                           "grouped_lr_schedule",
                           "ignore_data_skip",
                           "init_start_profile",
                           "layer_decay",
                           "layer_scale",
                           "load_checkpoint",
                           "load_ckpt_async",
                           "load_ckpt_format",
                           "lr_scale",
                           "lr_scale_factor",
                           "lr_schedule",
                           "metric",
                           "micro_batch_interleave_num",
                           "model",
                           "moe_config",
                           "monitor_config",
                           "only_save_strategy",
                           "optimizer",
                           "output_dir",
                           "parallel",
                           "parallel_config",
                           "print_separate_loss",
                           "processor",
                           "profile",
                           "profile_communication",
                           "profile_memory",
                           "profile_output",
                           "profile_rank_ids",
                           "profile_start_step",
                           "profile_stop_step",
                           "profiler_level",
                           "recompute_config",
                           "remote_save_url",
                           "remove_redundancy",
                           "resume_training",
                           "run_mode",
                           "runner_config",
                           "runner_wrapper",
                           "seed",
                           "src_strategy_path_or_dir",
                           "swap_config",
                           "train_dataset",
                           "train_dataset_task",
                           "trainer",
                           "transform_process_num",
                           "use_graceful_exit",
                           "use_legacy",
                           "use_parallel"};
  return names;
}

const Names& parallel_keys() {
  static const Names names{"all_reduce_fusion_config",
                           "auto_pipeline",
                           "comm_fusion",
                           "communi_parallel_mode",
                           "dataset_strategy",
                           "device_num",
                           "elementwise_op_strategy_follow",
                           "enable_alltoall",
                           "enable_parallel_optimizer",
                           "force_fp32_communication",
                           "full_batch",
                           "fully_use_devices",
                           "global_rank",
                           "gradient_fp32_sync",
                           "gradients_mean",
                           "group_ckpt_save_file",
                           "loss_repeated_mean",
                           "parallel_mode",
                           "parallel_optimizer_config",
                           "parameter_broadcast",
                           "pipeline_config",
                           "pipeline_result_broadcast",
                           "pipeline_stages",
                           "search_mode",
                           "strategy_ckpt_config",
                           "strategy_ckpt_load_file",
                           "strategy_ckpt_save_file"};
  return names;
}

const Names& parallel_config_keys() {
  static const Names names{"context_parallel",
                           "context_parallel_algo",
                           "data_parallel",
                           "expert_parallel",
                           "gradient_accumulation_steps",
                           "gradient_aggregation_group",
                           "mem_coeff",
                           "micro_batch_num",
                           "model_parallel",
                           "optimizer_shard",
                           "pipeline_stage",
                           "recompute",
                           "select_recompute",
                           "seq_split_num",
                           "ulysses_degree_in_cp",
                           "use_seq_parallel",
                           "vocab_emb_dp"};
  return names;
}

const Names& runner_keys() {
  static const Names names{"amp_level",
                           "batch_size",
                           "epochs",
                           "global_batch_size",
                           "gradient_accumulation_steps",
                           "has_trained_epoches",
                           "has_trained_steps",
                           "image_size",
                           "initial_epoch",
                           "mini_batch_size",
                           "num_classes",
                           "per_epoch_size",
                           "per_batch_size",
                           "sink_mode",
                           "sink_size",
                           "stop_step"};
  return names;
}

const Names& optimizer_keys() {
  static const Names names{"gradient_accumulation_shard", "optimizer_level", "optimizer_weight_shard_size",
                           "parallel_optimizer_threshold"};
  return names;
}

/// Of `model.model_config`, whose other keys are the model's: the type of what is computed, of parameters, and of
/// operators that compute in f32 here in any case. Their spelling has changed in the course of time.
const Names& compute_keys() {
  static const Names names{"compute_dtype"};
  return names;
}
const Names& parameter_keys() {
  static const Names names{"param_init_type", "param_init_dtype"};
  return names;
}
const Names& inner_keys() {
  static const Names names{"softmax_compute_dtype", "softmax_compute_type", "layernorm_compute_type",
                           "layernorm_compute_dtype", "rotary_dtype"};
  return names;
}

/// Near names among `known`, or the section in which `key` stands.
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

/// One of two places where the same may stand, or both if they agree.
struct Place {
  const YamlMap& section;
  std::string key;
};
std::optional<std::int64_t> agreed(const std::vector<Place>& places) {
  std::optional<std::int64_t> out;
  std::string where;
  for (const auto& [section, key] : places) {
    const auto n = section.count(key);
    if (!n) continue;
    if (out && *out != *n)
      throw error("{} is {} but {} is {}; they should say the same", where, *out, section.path_of(key), *n);
    out = n;
    where = section.path_of(key);
  }
  return out;
}

std::optional<Parallel> mode_of(const YamlMap& parallel) {
  const auto value = parallel.text("parallel_mode");
  if (!value) return std::nullopt;
  std::string name = *value;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  constexpr std::array modes{Parallel::data_parallel, Parallel::semi_auto_parallel, Parallel::auto_parallel,
                             Parallel::stand_alone};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const bool has_number = modes[i] != Parallel::stand_alone;
    if (name == name_of(modes[i]) || (has_number && name == std::to_string(i))) return modes[i];
  }
  throw error(
      "{}: '{}' should be 0 (data_parallel), 1 (semi_auto_parallel), 2 (auto_parallel) or stand_alone",
      parallel.path_of("parallel_mode"), *value);
}

/// `[[8, 1], [8]]` as `((8, 1), (8,))`.
std::string splits_of(const YAML::Node& list, const std::string& where) {
  const auto check = [&](const YAML::Node& node) {
    if (!node.IsSequence() || node.size() == 0)
      throw error("{} should be full_batch, data_parallel or a list with a list of integers for each input",
                  where);
  };
  std::vector<TensorSplit> out;
  check(list);
  for (const YAML::Node& input : list) {
    check(input);
    TensorSplit& split = out.emplace_back();
    for (const YAML::Node& parts : input) {
      const auto n = parts.IsScalar() ? to_integer(parts.Scalar()) : std::nullopt;
      if (!n || *n < 1) throw error("{}: parts of a dim should be integers from 1 on", where);
      split.parts.push_back(*n);
    }
  }
  return to_text(out);
}

void read_dataset(Config& c, const YamlMap& parallel) {
  const std::string where = parallel.path_of("dataset_strategy");
  const YAML::Node strategy = parallel.at("dataset_strategy");
  std::string& word = c.dataset_strategy;
  if (strategy.IsScalar()) {
    word = strategy.Scalar();
    if (word != "full_batch" && word != "data_parallel")
      throw error("{}: '{}' should be full_batch, data_parallel or a list of splits", where, word);
  } else if (strategy.IsDefined() && !strategy.IsNull()) {
    word = splits_of(strategy, where);
  }

  const auto full = parallel.flag("full_batch");
  if (full && !word.empty() && *full != (word == "full_batch"))
    throw error("{} is {} but {} is {}; full_batch: True is the same as dataset_strategy: full_batch",
                parallel.path_of("full_batch"), *full ? "True" : "False", where, word);
  c.is_full_batch = full.value_or(word == "full_batch");
  if (full && word.empty()) c.dataset_strategy = *full ? "full_batch" : "data_parallel";
}

void read_optimizer_parallel(Config& c, const YamlMap& parallel, const YamlMap& parallel_config) {
  const YamlMap settings = parallel.map("parallel_optimizer_config", optimizer_keys());
  const std::string level = settings.text("optimizer_level").value_or("level1");
  const Names levels{"level1", "level2", "level3"};
  const auto it = std::find(levels.begin(), levels.end(), level);
  if (it == levels.end())
    throw error("{}: '{}' should be level1, level2 or level3", settings.path_of("optimizer_level"), level);
  const auto shard = parallel_config.flag("optimizer_shard");
  if (!parallel.flag("enable_parallel_optimizer").value_or(shard.value_or(false))) return;
  c.optimizer_parallel = it - levels.begin() + 1;
  if (settings.is_on("gradient_accumulation_shard"))
    c.optimizer_parallel = std::max<std::int64_t>(2, c.optimizer_parallel);
  const auto setting = [&](const char* key, std::int64_t least) -> std::optional<std::int64_t> {
    const auto value = settings.text(key);
    if (!value || *value == "-1") return std::nullopt;
    const auto n = to_integer(*value);
    if (!n || *n < least || *n > most)
      throw error("{}: '{}' should be an integer from {} on, or -1", settings.path_of(key), *value, least);
    return n;
  };
  if (const auto kib = setting("parallel_optimizer_threshold", 0)) c.optimizer_threshold = *kib * 1024;
  c.optimizer_group = setting("optimizer_weight_shard_size", 1);
}

std::vector<std::int64_t> integers_of(const YAML::Node& list, const std::string& where) {
  if (!list.IsSequence()) throw error("{} should be a list of integers", where);
  std::vector<std::int64_t> out;
  for (const YAML::Node& entry : list) {
    const auto n = entry.IsScalar() ? to_integer(entry.Scalar()) : std::nullopt;
    if (!n) throw error("{} should be a list of integers", where);
    out.push_back(*n);
  }
  return out;
}

BucketLimit index_limit_of(const YAML::Node& list, const std::string& where) {
  std::vector<std::int64_t> indices = integers_of(list, where);
  try {
    return index_limit(std::move(indices));
  } catch (const Error& e) {
    throw with_context(e, where);
  }
}

BucketLimit size_limit_of(const YamlMap& section) {
  const auto config = section.text("config");
  if (!config) throw error("{} is missing; it should be a number of megabytes", section.path_of("config"));
  try {
    return parse_bucket_limit("size:" + *config);
  } catch (const Error& e) {
    throw with_context(e, section.path_of("config"));
  }
}

/// `{mode: size, config: 32}`
BucketLimit limit_of(const YamlMap& section) {
  const auto mode = section.text("mode");
  if (!mode) throw error("{} is missing; it should be auto, size or index", section.path_of("mode"));
  if (*mode == "index") return index_limit_of(section.at("config"), section.path_of("config"));
  if (*mode == "size") return size_limit_of(section);
  if (*mode != "auto") throw error("{}: '{}' should be auto, size or index", section.path_of("mode"), *mode);
  if (const auto config = section.text("config"))
    throw error("{} is {} but mode auto has none; leave it out", section.path_of("config"), *config);
  return {};
}

void read_comm_fusion(Config& c, const YamlMap& parallel) {
  const std::string old = "all_reduce_fusion_config";
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"}};
  if (!parallel.has("comm_fusion") && !parallel.has(old)) return;
  CommFusion fusion;
  const YamlMap settings =
      parallel.map("comm_fusion", {"openstate", "allreduce", "allgather", "reducescatter"});
  for (const auto& [key, kind] : kinds)
    if (settings.has(key)) set_limit(fusion, kind, limit_of(settings.map(key, {"mode", "config"})));
  if (parallel.has(old)) {
    if (settings.has("allreduce"))
      throw error("{} and {} exclude each other", parallel.path_of(old), settings.path_of("allreduce"));
    fusion.all_reduce = index_limit_of(parallel.at(old), parallel.path_of(old));
  }
  if (!settings.flag("openstate").value_or(true)) fusion = parse_comm_fusion("none");
  c.comm_fusion = to_text(fusion);
}

/// `recompute: True` is full, `select_recompute: True` selected; lists of layers per stage are not read yet.
void read_recompute(Config& c, const YamlMap& top, const YamlMap& parallel_config) {
  const YamlMap settings = top.map("recompute_config");
  const auto is_on = [&](const char* key) {
    bool out = false;
    for (const YamlMap* section : {&settings, &parallel_config}) {
      const YAML::Node value = section->at(key);
      if (value.IsSequence() || value.IsMap())
        c.inactive.emplace_back(key);
      else
        out = section->is_on(key) || out;
    }
    return out;
  };
  const auto with_options = [&](const std::string& mode, const char* key) {
    const bool usual = mode == "full";
    Names options;
    if (settings.flag(key).value_or(usual) != usual)
      options.push_back(fmt::format("communication={}", !usual));
    if (settings.is_on("recompute_slice_activation")) options.emplace_back("shard_kept=true");
    return mode + (options.empty() ? "" : ":") + join(options, ",");
  };
  const bool is_selected = is_on("select_recompute");
  if (is_on("recompute"))
    c.recompute = with_options("full", "mp_comm_recompute");
  else if (is_selected)
    c.recompute = with_options("selected", "select_comm_recompute");
}

/// What the batch is multiplied with.
void read_batch(Config& c, const YamlMap& top, const YamlMap& parallel, const YamlMap& parallel_config) {
  const YamlMap runner = top.map("runner_config", runner_keys());
  c.batch_size = agreed({{runner, "batch_size"}, {top, "batch_size"}});
  // The runner's batch size takes the place of the dataset's.
  if (!c.batch_size) c.batch_size = top.map("train_dataset").count("batch_size");
  c.epochs = runner.count("epochs");
  const std::string steps = "gradient_accumulation_steps";
  c.accumulation = agreed({{runner, steps}, {top, steps}, {parallel_config, steps}}).value_or(1);
  c.interleave = top.count("micro_batch_interleave_num").value_or(1);
  c.data_parallel = parallel_config.count("data_parallel").value_or(1);
  c.micro_batches = parallel_config.count("micro_batch_num").value_or(1);
  c.stages = agreed({{parallel_config, "pipeline_stage"}, {parallel, "pipeline_stages"}}).value_or(1);
}

/// The one of `keys` that is there. Throws: Error if two say different things.
std::optional<PrecisionKeys::Said> said(const std::vector<Place>& places) {
  std::optional<PrecisionKeys::Said> out;
  for (const auto& [section, key] : places) {
    const auto value = section.text(key);
    if (!value) continue;
    if (out && out->value != *value)
      throw error("{} is {} but {} is {}; they should say the same", out->key, out->value,
                  section.path_of(key), *value);
    out = {section.path_of(key), *value};
  }
  return out;
}

/// `gradient_fp32_sync: True` is how gradients are reduced anyway.
void read_precision(Config& c, const YamlMap& top, const YamlMap& parallel) {
  const YamlMap runner = top.map("runner_config", runner_keys());
  const YAML::Node of_model = top.at("model");  // elsewhere it may be a name
  const YAML::Node settings = of_model.IsMap() ? YamlMap(of_model, "model").at("model_config") : YAML::Node();
  const YamlMap model(settings.IsMap() ? settings : YAML::Node(), "model.model_config");
  const auto places = [&](const Names& keys) {
    std::vector<Place> out;
    for (const std::string& key : keys) out.push_back({model, key});
    return out;
  };
  PrecisionKeys keys{.amp_level = said({{top, "amp_level"}, {runner, "amp_level"}}),
                     .compute = said(places(compute_keys())),
                     .parameters = said(places(parameter_keys()))};
  for (const Place& place : places(inner_keys()))
    if (auto value = said({place})) keys.inner.push_back(std::move(*value));
  ConfigPrecision read = config_precision(keys);
  c.precision = std::move(read.precision);
  c.precision_key = std::move(read.key);
  c.idle.insert(c.idle.end(), read.idle.begin(), read.idle.end());
  if (const auto is_full = parallel.flag("gradient_fp32_sync"))
    c.reduce_precision = *is_full ? "f32" : "short";
}

std::string scale_text(double scale, const std::string& key) {
  if (!is_loss_scale(scale)) throw error("{}: {} should be from 1e-30 to 1e30", key, scale);
  return fmt::format("{}", scale);
}

/// `runner_wrapper.scale_sense`: a number that stays, or a cell that moves it or lets it stay.
void read_loss_scale(Config& c, const YamlMap& top) {
  const YamlMap wrapper = top.map("runner_wrapper");
  if (!wrapper.at("scale_sense").IsMap()) {
    if (const auto scale = wrapper.positive("scale_sense"))
      c.loss_scale = scale_text(*scale, wrapper.path_of("scale_sense"));
    return;
  }
  const YamlMap cell =
      wrapper.map("scale_sense", {"type", "loss_scale_value", "scale_factor", "scale_window"});
  const std::string type = cell.text("type").value_or("");
  if (type != "DynamicLossScaleUpdateCell" && type != "FixedLossScaleUpdateCell")
    throw error("{}: '{}' should be DynamicLossScaleUpdateCell or FixedLossScaleUpdateCell",
                cell.path_of("type"), type);
  const auto value = cell.positive("loss_scale_value");
  if (!value) throw error("{} is missing; write for example 65536", cell.path_of("loss_scale_value"));
  c.loss_scale = scale_text(*value, cell.path_of("loss_scale_value"));
  if (type.starts_with("Fixed")) return;
  const double factor = cell.positive("scale_factor").value_or(2);
  if (factor <= 1) throw error("{}: {} should be above 1", cell.path_of("scale_factor"), factor);
  const LossScale scale{
      .initial = *value, .interval = cell.count("scale_window").value_or(1000), .factor = factor};
  c.loss_scale = to_text(scale);
}

void check_batch(Config& c) {
  if (c.mode == Parallel::stand_alone) {  // the rest of the file is for more than one device
    c.is_full_batch = false;
    c.stages = 1;
  }
  if (c.stages > 1 && c.micro_batches < c.stages)
    throw error("parallel_config.micro_batch_num is {} but there are {} stages; each needs a micro-batch",
                c.micro_batches, c.stages);
  if (c.mode != Parallel::data_parallel || !c.is_full_batch) return;
  throw error(
      "parallel.full_batch is True but parallel.parallel_mode is data_parallel, which splits the batch");
}

/// What is asked for and not there yet.
void note_inactive(Config& c, const YamlMap& parallel, const YamlMap& parallel_config) {
  const auto note = [&](const std::string& key, auto is_asked) {
    if (is_asked) c.inactive.push_back(key);
  };
  const auto above_1 = [](const YamlMap& section, const std::string& key) {
    return section.count(key).value_or(1) > 1;
  };
  note("micro_batch_interleave_num", c.interleave > 1);
  if (c.stages == 1 && c.micro_batches > 1)
    c.idle.push_back(
        fmt::format("micro_batch_num {} has no effect: there is one stage, which takes "
                    "gradient_accumulation_steps",
                    c.micro_batches));
  if (c.stages > 1 && c.accumulation > 1)
    c.idle.push_back(
        fmt::format("gradient_accumulation_steps {} has no effect: {} stages take micro_batch_num",
                    c.accumulation, c.stages));
  if (c.mode == Parallel::stand_alone) return;
  note("auto_pipeline", parallel.is_on("auto_pipeline"));
  const YamlMap files =
      parallel.map("strategy_ckpt_config", {"load_file", "only_trainable_params", "save_file"});
  for (const char* key : {"strategy_ckpt_load_file", "strategy_ckpt_save_file"})
    note(key, !parallel.text(key).value_or("").empty());
  for (const char* key : {"load_file", "save_file"}) note(key, !files.text(key).value_or("").empty());
  note("expert_parallel", above_1(parallel_config, "expert_parallel"));
  // A search finds these; without one, annotations say them.
  if (c.mode != Parallel::semi_auto_parallel) return;
  for (const char* key : {"model_parallel", "context_parallel"}) note(key, above_1(parallel_config, key));
  note("use_seq_parallel", parallel_config.is_on("use_seq_parallel"));
}

Config config_of(const YAML::Node& node) {
  const YamlMap top(node, "", top_keys(), near_keys);
  if (!node.IsMap()) throw error("the file should be a map of keys");
  const YamlMap parallel = top.map("parallel", parallel_keys());
  const YamlMap parallel_config = top.map("parallel_config", parallel_config_keys());
  Config c;
  c.mode = mode_of(parallel);
  if (const auto use = top.flag("use_parallel"); use && !*use) c.mode = Parallel::stand_alone;
  c.devices = parallel.count("device_num");
  c.search = parallel.text("search_mode").value_or("");
  c.mem_coeff = parallel_config.positive("mem_coeff");
  c.fully_use_devices = parallel.flag("fully_use_devices");
  c.elementwise_follow = parallel.flag("elementwise_op_strategy_follow");
  read_dataset(c, parallel);
  read_optimizer_parallel(c, parallel, parallel_config);
  read_comm_fusion(c, parallel);
  read_batch(c, top, parallel, parallel_config);
  read_recompute(c, top, parallel_config);
  read_precision(c, top, parallel);
  read_loss_scale(c, top);
  check_batch(c);
  note_inactive(c, parallel, parallel_config);
  return c;
}

}  // namespace

Config load_config(const std::string& path) try {
  return config_of(load_yaml(path));
} catch (const YAML::Exception& e) {
  throw error("{}: line {}: {}", "config " + path, e.mark.line + 1, e.msg);
} catch (const Error& e) {
  if (e.kind() == ErrorKind::io) throw io_error("config {}", e.what());  // it names the file
  throw with_context(e, "config " + path);
}

std::optional<std::int64_t> global_batch(const Config& c, std::int64_t devices) {
  if (!c.batch_size) return std::nullopt;
  std::int64_t out = *c.batch_size;
  for (const std::int64_t factor : {c.is_full_batch ? c.data_parallel : devices, c.interleave,
                                    c.stages > 1 ? c.micro_batches : c.accumulation}) {
    if (out > most / factor) throw error("the global batch would be above {} samples", most);
    out *= factor;
  }
  return out;
}

}  // namespace shardwright
