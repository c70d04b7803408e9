#include "shardwright/exchange/mindformers/config_training.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/mindformers/config_values.h"

namespace shardwright {
namespace {

/// A section of which each key is either read or told to have no effect.
class ReadSection {
 public:
  ReadSection(YamlMap map, Config& config) : map_(std::move(map)), config_(config) {}

  /// The key's text; it counts as read.
  std::optional<std::string> text(const std::string& key) {
    read_.insert(key);
    return map_.text(key);
  }
  YAML::Node at(const std::string& key) {
    read_.insert(key);
    return map_.at(key);
  }
  bool is_on(const std::string& key) {
    read_.insert(key);
    return map_.is_on(key);
  }
  /// The key is what `flag` says.
  void say(const char* flag, const std::string& key) {
    if (const auto value = text(key)) say(flag, key, *value);
  }
  void say(const char* flag, const std::string& key, std::string value) {
    read_.insert(key);
    config_.said.push_back({flag, std::move(value), fmt::format("{} ({})", map_.path_of(key), flag)});
  }
  void has_no_effect(const std::string& key, std::string_view why) {
    read_.insert(key);
    if (map_.has(key)) config_.notices.push_back(fmt::format("{} has no effect: {}", map_.path_of(key), why));
  }
  std::string path_of(const std::string& key) const { return map_.path_of(key); }
  void note_others() {
    std::vector<std::string> others;
    for (const std::string& key : map_.keys())
      if (!read_.contains(key)) others.push_back(map_.path_of(key));
    if (!others.empty())
      config_.notices.push_back(
          fmt::format("{} {} no effect", join(others, ", "), others.size() == 1 ? "has" : "have"));
  }

 private:
  YamlMap map_;
  Config& config_;
  std::set<std::string> read_;
};

/// The entry of `known` that `type` names. Throws: Error that lists them.
template <class T>
const T& named(const std::map<std::string, T>& known, const std::string& type, const std::string& key) {
  const auto it = known.find(type);
  if (it != known.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back(name);
  throw error("{}: '{}' is unknown{}; there are {}", key, type, near_names(type, names), join(names, ", "));
}

double number_of(const std::string& key, const std::string& text) {
  const auto value = to_number(text);
  if (!value || !std::isfinite(*value)) throw error("{}: '{}' should be a number", key, text);
  return *value;
}

void read_optimizer(ReadSection& optimizer) {
  static const std::map<std::string, std::string> types{{"AdamW", "adamw"},
                                                        {"FP32StateAdamWeightDecay", "adamw"},
                                                        {"AdamWeightDecay", "adamw"},
                                                        {"FusedAdamW", "adamw"},
                                                        {"AdamWeightDecayX", "adamw"},
                                                        {"FusedCastAdamWeightDecay", "adamw"},
                                                        {"PmaAdamW", "adamw"},
                                                        {"Adam", "adam"},
                                                        {"SGD", "sgd"},
                                                        {"Momentum", "momentum"},
                                                        {"momentum", "momentum"}};
  const auto type = optimizer.text("type");
  if (type) {
    std::string name = named(types, *type, optimizer.path_of("type"));
    const auto momentum = optimizer.text("momentum");
    const bool has_momentum = momentum && number_of(optimizer.path_of("momentum"), *momentum) != 0;
    if (name == "sgd" && has_momentum) name = "momentum";
    optimizer.say("--optimizer", "type", name);
    if (has_momentum) optimizer.say("--momentum", "momentum");
  }
  optimizer.say("--weight-decay", "weight_decay");
  optimizer.say("--epsilon", "eps");
  optimizer.say("--beta1", "beta1");
  optimizer.say("--beta2", "beta2");
  if (const YAML::Node betas = optimizer.at("betas"); betas.IsDefined() && !betas.IsNull()) {
    if (!betas.IsSequence() || betas.size() != 2 || !betas[0].IsScalar() || !betas[1].IsScalar())
      throw error("{}: should be two numbers, as in [0.9, 0.95]", optimizer.path_of("betas"));
    optimizer.say("--beta1", "betas", betas[0].Scalar());
    optimizer.say("--beta2", "betas", betas[1].Scalar());
  }
  optimizer.note_others();
}

/// `CosineWithWarmUpLR` with `lr_end` as --lr-schedule has it: `cosine:end=1e-6`.
std::string schedule_of(ReadSection& rates, const std::string& type) {
  static const std::map<std::string, std::string> types{{"ConstantWarmUpLR", "constant"},
                                                        {"LinearWithWarmUpLR", "linear"},
                                                        {"CosineWithWarmUpLR", "cosine"},
                                                        {"PolynomialWithWarmUpLR", "polynomial"}};
  std::string out = named(types, type, rates.path_of("type"));
  std::vector<std::string> settings;
  if (out == "polynomial") {  // the suite's defaults, which are not ours
    settings.push_back(fmt::format("power={}", rates.text("power").value_or("1.0")));
    settings.push_back(fmt::format("end={}", rates.text("lr_end").value_or("1e-7")));
  } else if (out == "cosine") {
    settings.push_back(fmt::format("end={}", rates.text("lr_end").value_or("0")));
  }
  return settings.empty() ? out : fmt::format("{}:{}", out, join(settings, ","));
}

void read_warmup(ReadSection& rates) {
  const auto is_some = [&](const std::string& key) {
    const auto value = rates.text(key);
    return value && number_of(rates.path_of(key), *value) > 0 ? value : std::nullopt;
  };
  const auto steps = is_some("warmup_steps"), epochs = is_some("warmup_epochs");
  const auto ratio = is_some("warmup_ratio");
  if (steps) return rates.say("--warmup", "warmup_steps", *steps);
  if (epochs) return rates.say("--warmup", "warmup_epochs", *epochs + "epochs");
  if (!ratio) return;
  const double share = number_of(rates.path_of("warmup_ratio"), *ratio);
  rates.say("--warmup", "warmup_ratio", fmt::format("{}%", share * 100));
}

void read_rates(ReadSection& rates, ReadSection& optimizer) {
  if (const auto type = rates.text("type")) rates.say("--lr-schedule", "type", schedule_of(rates, *type));
  if (rates.text("learning_rate"))
    rates.say("--lr", "learning_rate");
  else
    optimizer.say("--lr", "learning_rate");
  read_warmup(rates);
  const auto unless = [&](const std::string& key, double usual, std::string_view why) {
    const auto value = rates.text(key);
    if (value && number_of(rates.path_of(key), *value) != usual) rates.has_no_effect(key, why);
  };
  unless("warmup_lr_init", 0, "a warm-up begins at 0");
  unless("total_steps", -1, "a schedule ends with the run, which --steps says");
  unless("num_cycles", 0.5, "a cosine falls once");
  rates.note_others();
}

/// Callbacks of the suite. Where they write is below `output_dir`.
class Callbacks {
 public:
  Callbacks(const YamlMap& top, Config& config)
      : output_(top.text("output_dir").value_or("./output")), config_(config) {
    const YAML::Node list = top.at("callbacks");
    if (!list.IsDefined() || list.IsNull()) return;
    if (!list.IsSequence()) throw error("callbacks: should be a list of maps with a type");
    for (std::size_t i = 0; i < list.size(); ++i)
      read(ReadSection(YamlMap(list[i], fmt::format("callbacks[{}]", i)), config_));
  }
  bool saves() const { return saves_; }

 private:
  void read(ReadSection callback) {
    const std::string type = callback.text("type").value_or("");
    if (type == "MFLossMonitor" || type == "LossMonitor") {
      callback.say("--log-every", "per_print_times");
    } else if (type == "CheckpointMonitor" || type == "CheckpointMointor") {  // the suite's own spelling
      saves_ = true;
      const auto folder = callback.text("directory");
      callback.say("--save", folder ? "directory" : "type", folder.value_or(output_ + "/checkpoint"));
      callback.say("--save-every", "save_checkpoint_steps");
      callback.say("--keep", "keep_checkpoint_max");
    } else if (type == "SummaryMonitor") {
      const auto folder = callback.text("summary_dir");
      callback.say("--tensorboard", folder ? "summary_dir" : "type", folder.value_or(output_ + "/summary"));
    } else {
      callback.has_no_effect("type", fmt::format("there is no '{}'", type));
      return;
    }
    callback.note_others();
  }

  std::string output_;
  Config& config_;
  bool saves_ = false;
};

void read_start(ReadSection& top, bool saves) {
  const std::string path = top.text("load_checkpoint").value_or("");
  const std::string resume = top.text("resume_training").value_or("");
  const bool is_off = resume.empty() || resume == "False" || resume == "false";
  if (!is_off && path.empty() && !saves)
    throw error(
        "resume_training: there is nothing to go on from; give load_checkpoint, or a CheckpointMonitor in "
        "callbacks");
  if (!is_off)
    top.say("--resume", path.empty() ? "resume_training" : "load_checkpoint", path.empty() ? "auto" : path);
  else if (!path.empty())
    top.say("--init", "load_checkpoint", path);
  top.say("--seed", "seed");
}

/// The folder or file of a dataset's loader.
std::optional<std::string> data_of(const YamlMap& top, const std::string& key) {
  const YAML::Node set = top.at(key);
  if (!set.IsMap()) return std::nullopt;
  const YAML::Node loader = YamlMap(set, key).at("data_loader");
  return loader.IsMap() ? YamlMap(loader, key + ".data_loader").text("dataset_dir") : std::nullopt;
}

void read_data(const YamlMap& top, Config& config) {
  const auto say = [&](const char* flag, const std::string& key, const std::optional<std::string>& path) {
    if (path && !path->empty())
      config.said.push_back({flag, *path, fmt::format("{}.data_loader.dataset_dir ({})", key, flag)});
  };
  say("--data", "train_dataset", data_of(top, "train_dataset"));
  ReadSection section(top, config);
  if (!section.is_on("do_eval")) return;
  const auto held_out = data_of(top, "eval_dataset");
  if (!held_out)
    throw error("do_eval: there is nothing to evaluate; give eval_dataset.data_loader.dataset_dir");
  say("--eval", "eval_dataset", held_out);
  section.say("--eval-every", "eval_step_interval");
  section.has_no_effect("eval_epoch_interval", "eval_step_interval says when to evaluate");
}

}  // namespace

void read_training(const YamlMap& top, Config& config) {
  ReadSection optimizer(top.map("optimizer"), config), rates(top.map("lr_schedule"), config),
      all(top, config);
  read_rates(rates, optimizer);
  read_optimizer(optimizer);
  ReadSection wrapper(top.map("runner_wrapper"), config);
  if (wrapper.is_on("use_clip_grad"))
    wrapper.say("--clip-norm", "max_grad_norm", wrapper.text("max_grad_norm").value_or("1.0"));
  // What hangs is ended after so many seconds; 0: after the usual ones.
  ReadSection context(top.map("context"), config);
  if (context.text("op_timeout").value_or("0") != "0") context.say("--timeout", "op_timeout");
  const Callbacks callbacks(top, config);
  read_start(all, callbacks.saves());
  read_data(top, config);
}

}  // namespace shardwright
