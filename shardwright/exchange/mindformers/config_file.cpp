#include "shardwright/exchange/mindformers/config_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/cost/yaml_text.h"
#include "shardwright/exchange/mindformers/config_keys.h"
#include "shardwright/exchange/mindformers/config_precision.h"
#include "shardwright/exchange/mindformers/config_schedule.h"
#include "shardwright/exchange/mindformers/config_training.h"
#include "shardwright/exchange/mindformers/config_values.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/plan/optimizer_parallel.h"
#include "shardwright/plan/plan.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

constexpr std::int64_t most = 1LL << 40;

/// A place where something may stand.
struct Place {
  const YamlMap& section;
  std::string key;
};

template <class T>
struct Agreed {
  std::string key;
  T value;
};

/// What `read` finds in one of several places, or in more if they agree.
template <class T>
std::optional<Agreed<T>> agreed(const std::vector<Place>& places,
                                std::optional<T> (*read)(const YamlMap&, const std::string&)) {
  std::optional<Agreed<T>> out;
  for (const auto& [section, key] : places) {
    const auto value = read(section, key);
    if (!value) continue;
    if (out && out->value != *value)
      throw error("{} is {} but {} is {}; they should say the same", out->key, out->value,
                  section.path_of(key), *value);
    out = {section.path_of(key), *value};
  }
  return out;
}
std::optional<std::int64_t> count(const YamlMap& section, const std::string& key) {
  return section.count(key);
}
std::optional<std::string> text(const YamlMap& section, const std::string& key) { return section.text(key); }
/// Empty: none is meant.
std::optional<std::string> named_file(const YamlMap& section, const std::string& key) {
  const auto path = section.text(key);
  return path && !path->empty() ? path : std::nullopt;
}

/// Reads the sections, each function what belongs together.
class ConfigReader {
 public:
  explicit ConfigReader(const YAML::Node& node) : top_(node, "", top_keys(), near_keys) {}

  Config run() {
    read_mode();
    read_settings();
    read_batch();
    read_dataset();
    read_optimizer_parallel();
    read_comm_fusion();
    read_recompute();
    read_precision();
    read_loss_scale();
    read_training(top_, config_);
    read_strategies();
    note_inactive();
    return std::move(config_);
  }

 private:
  void say(const std::string& flag, const YamlMap& section, const std::string& key, std::string text) {
    config_.said.push_back({flag, std::move(text), section.path_of(key)});
  }
  /// Of keys whose values are no text of the flag: the flag stands behind the key.
  void stand_for(const char* flag, const std::string& key, std::string text) {
    config_.said.push_back({flag, std::move(text), fmt::format("{} ({})", key, flag)});
  }
  void keep_off(const char* flag, const std::string& key, std::string text) {
    stand_for(flag, key, std::move(text));
    config_.said.back().is_off = true;
  }
  void note(const std::string& text) { config_.notices.push_back(text); }

  void read_mode();
  void read_settings();
  void read_batch();
  void read_dataset();
  void read_optimizer_parallel();
  void read_comm_fusion();
  void read_recompute();
  void read_precision();
  void read_loss_scale();
  void read_strategies();
  void note_inactive();

  YamlMap top_;
  YamlMap parallel_ = top_.map("parallel", parallel_keys());
  YamlMap parallel_config_ = top_.map("parallel_config", parallel_config_keys());
  YamlMap runner_ = top_.map("runner_config", runner_keys());
  YamlMap model_ = model_config_of(top_);
  std::optional<Parallel> mode_;
  Config config_;
};

void ConfigReader::read_mode() {
  if (const auto value = parallel_.text("parallel_mode")) {
    const std::string name = lower(*value);
    constexpr std::array modes{Parallel::data_parallel, Parallel::semi_auto_parallel, Parallel::auto_parallel,
                               Parallel::stand_alone};
    for (std::size_t i = 0; i < modes.size(); ++i) {
      const bool has_number = modes[i] != Parallel::stand_alone;
      if (name == name_of(modes[i]) || (has_number && name == std::to_string(i))) mode_ = modes[i];
    }
    if (!mode_)
      throw error(
          "{}: '{}' should be 0 (data_parallel), 1 (semi_auto_parallel), 2 (auto_parallel) or stand_alone",
          parallel_.path_of("parallel_mode"), *value);
  }
  const bool is_alone = !top_.flag("use_parallel").value_or(true);
  if (is_alone) mode_ = Parallel::stand_alone;
  if (mode_)
    config_.said.push_back({"--parallel", std::string(name_of(*mode_)),
                            is_alone ? "use_parallel" : parallel_.path_of("parallel_mode")});
}

/// Those whose key has the value of the flag.
void ConfigReader::read_settings() {
  for (const auto& [name, section] : {std::pair("parallel", &parallel_),
                                      {"parallel_config", &parallel_config_},
                                      {"runner_config", &runner_}})
    for (const SettingRow& row : all_settings()) {
      const std::size_t dot = row.key.find('.');
      if (dot == row.key.npos || row.key.substr(0, dot) != name) continue;
      const std::string key = row.key.substr(dot + 1);
      if (!section->has(key)) continue;
      const bool is_flag = row.value == "0|1";
      say(row.flag, *section, key, is_flag ? (section->is_on(key) ? "1" : "0") : *section->text(key));
    }
  if (!parallel_.is_on("auto_pipeline") && mode_ == Parallel::auto_parallel) {
    std::erase_if(config_.said, [](const Config::Said& said) { return said.flag == "--auto-pipeline"; });
    keep_off("--auto-pipeline", parallel_.path_of("auto_pipeline"), "0");
  }
}

/// What the batch is multiplied with, stages and micro-batches.
void ConfigReader::read_batch() {
  const auto or_1 = [](const std::optional<Agreed<std::int64_t>>& said) { return said ? said->value : 1; };
  const auto say_count = [&](const char* flag, const Agreed<std::int64_t>& said) {
    config_.said.push_back({flag, fmt::format("{}", said.value), said.key});
  };
  Config::Batch& batch = config_.batch;
  auto size = agreed<std::int64_t>({{runner_, "batch_size"}, {top_, "batch_size"}}, count);
  // The runner's batch size takes the place of the dataset's.
  const YamlMap data = top_.map("train_dataset");
  if (!size) size = agreed<std::int64_t>({{data, "batch_size"}}, count);
  if (size) batch.size = size->value, batch.key = size->key;
  if (const auto n = runner_.count("epochs")) say("--epochs", runner_, "epochs", fmt::format("{}", *n));
  const std::string interleave = "micro_batch_interleave_num", steps = "gradient_accumulation_steps";
  const auto parts_of_one = agreed<std::int64_t>(
      {{top_, interleave}, {runner_, interleave}, {parallel_config_, interleave}}, count);
  if ((batch.interleave = or_1(parts_of_one)) > 1) say_count("--micro-batch-interleave", *parts_of_one);
  batch.data_parallel = parallel_config_.count("data_parallel").value_or(1);
  auto stages =
      agreed<std::int64_t>({{parallel_config_, "pipeline_stage"}, {parallel_, "pipeline_stages"}}, count);
  if (mode_ == Parallel::stand_alone) stages.reset();  // the rest of the file is for more than one device
  const auto micro = agreed<std::int64_t>({{parallel_config_, "micro_batch_num"}}, count);
  const auto accumulation =
      agreed<std::int64_t>({{runner_, steps}, {top_, steps}, {parallel_config_, steps}}, count);
  const bool is_pipeline = or_1(stages) > 1;
  if (is_pipeline && or_1(micro) < stages->value)
    throw error("parallel_config.micro_batch_num is {} but there are {} stages; each needs a micro-batch",
                or_1(micro), stages->value);
  if (!is_pipeline && or_1(micro) > 1)
    note(fmt::format("micro_batch_num {} has no effect: the file has one stage, which takes {}", micro->value,
                     steps));
  if (is_pipeline && or_1(accumulation) > 1)
    note(fmt::format("{} {} has no effect: {} stages take micro_batch_num", steps, accumulation->value,
                     stages->value));
  const auto& parts = is_pipeline ? micro : accumulation;
  batch.parts = or_1(parts);
  if (is_pipeline) say_count("--stages", *stages);
  if (batch.parts > 1) say_count("--micro-batches", *parts);
  const ConfigSchedule schedule = config_schedule(parallel_, model_, is_pipeline);
  if (!schedule.name.empty()) config_.said.push_back({"--schedule", schedule.name, schedule.key});
  for (const std::string& line : schedule.notices) note(line);
}

void ConfigReader::read_dataset() {
  const std::string key = "dataset_strategy";
  const std::string where = parallel_.path_of(key);
  const YAML::Node strategy = parallel_.at(key);
  std::string word;
  if (strategy.IsScalar()) {
    word = strategy.Scalar();
    if (word != "full_batch" && word != "data_parallel")
      throw error("{}: '{}' should be full_batch, data_parallel or a list of splits", where, word);
  } else if (strategy.IsDefined() && !strategy.IsNull()) {
    word = splits_of(strategy, where);
  }

  const auto full = parallel_.flag("full_batch");
  if (full && !word.empty() && *full != (word == "full_batch"))
    throw error("{} is {} but {} is {}; full_batch: True is the same as dataset_strategy: full_batch",
                parallel_.path_of("full_batch"), *full ? "True" : "False", where, word);
  bool& is_full = config_.batch.is_full;
  is_full = full.value_or(word == "full_batch") && mode_ != Parallel::stand_alone;
  if (is_full && mode_ == Parallel::data_parallel)
    throw error(
        "parallel.full_batch is True but parallel.parallel_mode is data_parallel, which splits the batch");
  if (full && word.empty())
    stand_for("--dataset-strategy", parallel_.path_of("full_batch"), *full ? "full_batch" : "data_parallel");
  else if (!word.empty())
    say("--dataset-strategy", parallel_, key, word);
}

void ConfigReader::read_optimizer_parallel() {
  const YamlMap settings = parallel_.map("parallel_optimizer_config", optimizer_keys());
  const std::string level = settings.text("optimizer_level").value_or("level1");
  const Names levels{"level1", "level2", "level3"};
  const auto it = std::find(levels.begin(), levels.end(), level);
  if (it == levels.end())
    throw error("{}: '{}' should be level1, level2 or level3", settings.path_of("optimizer_level"), level);
  const auto shard = parallel_config_.flag("optimizer_shard"),
             enable = parallel_.flag("enable_parallel_optimizer");
  const std::string said_by =
      enable ? parallel_.path_of("enable_parallel_optimizer") : parallel_config_.path_of("optimizer_shard");
  if (!enable.value_or(shard.value_or(false))) {
    if (enable || shard) keep_off("--optimizer-parallel", said_by, "0");
    return;
  }
  OptimizerParallel out{.level = static_cast<int>(it - levels.begin()) + 1};
  if (settings.is_on("gradient_accumulation_shard")) out.level = std::max(2, out.level);
  const auto setting = [&](const char* key, std::int64_t least,
                           std::int64_t largest) -> std::optional<std::int64_t> {
    const auto value = settings.text(key);
    if (!value || *value == "-1") return std::nullopt;
    const auto n = to_integer(*value);
    if (!n || *n < least || *n > largest)
      throw error("{}: '{}' should be an integer from {} on, or -1", settings.path_of(key), *value, least);
    return n;
  };
  if (const auto kib = setting("parallel_optimizer_threshold", 0, most)) out.threshold = *kib * 1024;
  if (const auto group = setting("optimizer_weight_shard_size", 1, most_devices))
    out.group = static_cast<int>(*group);
  stand_for("--optimizer-parallel", said_by, to_text(out));
}

void ConfigReader::read_comm_fusion() {
  const std::string old = "all_reduce_fusion_config";
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"}};
  const bool has_kinds = parallel_.has("comm_fusion");
  if (!has_kinds && !parallel_.has(old)) return;
  CommFusion fusion;
  const YamlMap settings =
      parallel_.map("comm_fusion", {"openstate", "allreduce", "allgather", "reducescatter"});
  for (const auto& [key, kind] : kinds)
    if (settings.has(key)) set_limit(fusion, kind, limit_of(settings.map(key, {"mode", "config"})));
  if (parallel_.has(old)) {
    if (settings.has("allreduce"))
      throw error("{} and {} exclude each other", parallel_.path_of(old), settings.path_of("allreduce"));
    fusion.all_reduce = index_limit_of(parallel_.at(old), parallel_.path_of(old));
  }
  if (!settings.flag("openstate").value_or(true)) fusion = parse_comm_fusion("none");
  stand_for("--comm-fusion", parallel_.path_of(has_kinds ? "comm_fusion" : old), to_text(fusion));
}

/// `recompute: True` is full, `select_recompute: True` selected; lists of layers per stage are not read yet.
void ConfigReader::read_recompute() {
  const YamlMap settings = top_.map("recompute_config");
  const auto is_on = [&](const char* key) {
    std::string out;  // the key that says so
    for (const YamlMap* section : {&settings, &std::as_const(parallel_config_)}) {
      const YAML::Node value = section->at(key);
      if (value.IsSequence() || value.IsMap())
        note(fmt::format("{} is not active yet", key));
      else if (section->is_on(key))
        out = section->path_of(key);
    }
    return out;
  };
  const auto with_options = [&](RecomputeMode mode, const char* key) {
    Recompute out{.mode = mode, .options = default_options(mode)};
    out.options.communication = settings.flag(key).value_or(out.options.communication);
    out.options.shard_kept = settings.is_on("recompute_slice_activation");
    return to_text(out);
  };
  const std::string selected = is_on("select_recompute"), full = is_on("recompute");
  if (!full.empty())
    stand_for("--recompute", full, with_options(RecomputeMode::full, "mp_comm_recompute"));
  else if (!selected.empty())
    stand_for("--recompute", selected, with_options(RecomputeMode::selected, "select_comm_recompute"));
  else
    for (const YamlMap* section : {&settings, &std::as_const(parallel_config_)})
      if (const YAML::Node value = section->at("recompute"); value.IsScalar())
        return keep_off("--recompute", section->path_of("recompute"), "none");
}

/// `gradient_fp32_sync: True` is how gradients are reduced anyway.
void ConfigReader::read_precision() {
  const auto said = [&](std::vector<Place> places) -> std::optional<PrecisionKeys::Said> {
    const auto one = agreed<std::string>(places, text);
    return one ? std::optional(PrecisionKeys::Said{one->key, one->value}) : std::nullopt;
  };
  const auto of = [&](const Names& keys) {
    std::vector<Place> out;
    for (const std::string& key : keys) out.push_back({model_, key});
    return said(out);
  };
  PrecisionKeys keys{.amp_level = said({{top_, "amp_level"}, {runner_, "amp_level"}}),
                     .compute = of(compute_keys()),
                     .parameters = of(parameter_keys())};
  for (const std::string& key : inner_keys())
    if (auto value = said({{model_, key}})) keys.inner.push_back(std::move(*value));
  const ConfigPrecision read = config_precision(keys);
  if (!read.precision.empty()) stand_for("--precision", read.key, read.precision);
  for (const std::string& line : read.idle) note(line);
  if (const auto is_full = parallel_.flag("gradient_fp32_sync"))
    config_.said.push_back({"--reduce-precision", *is_full ? "f32" : "short",
                            parallel_.path_of("gradient_fp32_sync") + " (--reduce-precision)", *is_full});
}

void ConfigReader::read_loss_scale() {
  const YamlMap wrapper = top_.map("runner_wrapper");
  if (const auto scale = loss_scale_of(wrapper, "scale_sense"))
    stand_for("--loss-scale", wrapper.path_of("scale_sense"), to_text(*scale));
}

/// Where operators' strategies are taken from, and where the plan's are written.
void ConfigReader::read_strategies() {
  const YamlMap files =
      parallel_.map("strategy_ckpt_config", {"load_file", "only_trainable_params", "save_file"});
  const auto load = agreed({{parallel_, "strategy_ckpt_load_file"}, {files, "load_file"}}, named_file);
  const auto save = agreed({{parallel_, "strategy_ckpt_save_file"}, {files, "save_file"}}, named_file);
  const bool is_whole = mode_ == Parallel::data_parallel || mode_ == Parallel::stand_alone;
  if (load && is_whole) note(fmt::format("{} has no effect: the mode is {}", load->key, name_of(*mode_)));
  if (load && !is_whole) stand_for("--strategy", load->key, load->value);
  if (save) stand_for("--save-strategy", save->key, save->value);
  if (!files.flag("only_trainable_params").value_or(true))
    note(files.path_of("only_trainable_params") + " has no effect: how states lie follows from parameters");
}

/// What is asked for and not there yet.
void ConfigReader::note_inactive() {
  const auto note_if = [&](const std::string& key, bool is_asked) {
    if (is_asked) note(key + " is not active yet");
  };
  const auto above_1 = [&](const char* key) { return parallel_config_.count(key).value_or(1) > 1; };
  note_if("swap_config.swap", top_.map("swap_config").is_on("swap"));
  if (mode_ == Parallel::stand_alone) return;
  for (const char* key : {"force_fp32_communication", "pipeline_result_broadcast"})
    note_if(key, parallel_.is_on(key));
  note_if("group_ckpt_save_file", named_file(parallel_, "group_ckpt_save_file").has_value());
  for (const char* key : {"expert_parallel", "seq_split_num"}) note_if(key, above_1(key));
  // A search finds these; without one, annotations say them.
  if (mode_ != Parallel::semi_auto_parallel) return;
  for (const char* key : {"model_parallel", "context_parallel"}) note_if(key, above_1(key));
  note_if("use_seq_parallel", parallel_config_.is_on("use_seq_parallel"));
}

}  // namespace

Config load_config(const std::string& path) try {
  const YAML::Node node = load_yaml(path);
  if (!node.IsMap()) throw error("the file should be a map of keys");
  return ConfigReader(node).run();
} catch (const YAML::Exception& e) {
  throw error("{}: line {}: {}", "config " + path, e.mark.line + 1, e.msg);
} catch (const Error& e) {
  if (e.kind() == ErrorKind::io) throw io_error("config {}", e.what());  // it names the file
  throw with_context(e, "config " + path);
}

std::optional<std::int64_t> global_batch(const Config::Batch& batch, std::int64_t devices) {
  if (!batch.size) return std::nullopt;
  std::int64_t out = *batch.size;
  for (const std::int64_t factor :
       {batch.is_full ? batch.data_parallel : devices, batch.interleave, batch.parts}) {
    if (out > most / factor) throw error("the global batch would be above {} samples", most);
    out *= factor;
  }
  return out;
}

}  // namespace shardwright
