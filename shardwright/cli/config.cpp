#include "shardwright/cli/config.h"

#include <algorithm>
#include <utility>

#include "shardwright/cli/asked.h"
#include "shardwright/exchange/mindformers/config_file.h"
#include "shardwright/ops/optimizer_settings.h"

namespace shardwright {
namespace {

class ConfigDoor {
 public:
  explicit ConfigDoor(Arguments arguments)
      : arguments_(std::move(arguments)), path_(arguments_.text("--config")), config_(load_config(path_)) {}

  Arguments run() {
    for (const std::string& text : config_.notices) notice(text);
    for (const Config::Said& said : config_.said) {
      const SettingRow* row = setting_of(said.flag);
      if (said.flag == "--strategy" || said.flag == "--save-strategy")
        add_strategies(said);
      else if (!row)
        add_for_training(said);
      else if (arguments_.has("--plan") && said.is_off)
        continue;
      else if (arguments_.has("--plan"))
        compare_with(request_of(saved_plan(arguments_)), *row, said);
      else if (is_of_another_optimizer(*row))
        notice(fmt::format("{} has no effect: the optimizer is {}", said.key, optimizer()));
      else if (parsed(asked_of(arguments_), *row, said);
               !said.is_usual && !said.is_off && !is_of_cluster(said))
        add(said);
    }
    keep_off();
    check_mode();
    add_batch();
    arguments_.heed_none();  // here flags were only looked at
    arguments_.heed("--config");
    return std::move(arguments_);
  }

 private:
  void add(const Config::Said& said) {
    if (!arguments_.flags.emplace(said.flag, said.text).second) return;
    arguments_.of_config.insert(said.flag);
    arguments_.names[said.flag] = fmt::format("config {}: {}", path_, said.key);
  }
  /// What the file leaves off a search of whole plans would choose; to others it is nothing new.
  void keep_off() {
    if (arguments_.has("--plan") || !chooses_structure(asked_of(arguments_))) return;
    for (const Config::Said& said : config_.said)
      if (said.is_off) add(said);
  }
  void notice(const std::string& text) {
    arguments_.notices.push_back(fmt::format("config {}: {}", path_, text));
  }

  /// Only who plans reads them, and only plans and trainings write one.
  void add_strategies(const Config::Said& said) {
    const std::string verb = arguments_.words.empty() ? "" : arguments_.words[0];
    const bool is_read = said.flag == "--strategy";
    if (is_read && arguments_.has("--plan"))
      notice(
          fmt::format("{} has no effect: the plan {} has decided it", said.key, arguments_.text("--plan")));
    else if (is_read || verb == "plan" || verb == "train")
      add(said);
  }

  /// Other verbs do not train; whether the data have an end is seen when they are read.
  void add_for_training(const Config::Said& said) {
    if (arguments_.words.empty() || arguments_.words[0] != "train") return;
    const auto yields_to = [&](const char* flag, std::string_view what) {
      const bool yields = arguments_.has(flag) && !arguments_.of_config.contains(flag);
      if (yields) notice(fmt::format("{} has no effect: {} says {}", said.key, flag, what));
      return yields;
    };
    if (said.flag == "--epochs" && yields_to("--steps", "when to end")) return;
    if (said.flag == "--init" && yields_to("--resume", "what to start from")) return;
    if (said.flag == "--resume" && yields_to("--init", "what to start from")) return;
    add(said);
  }

  /// Whatever there is to say of a key, it is told with the file.
  PlanRequest parsed(PlanRequest request, const SettingRow& row, const Config::Said& said) const {
    const Given given{fmt::format("config {}: {}", path_, said.key), said.text};
    try {
      row.parse(request, given);
    } catch (const Error& e) {
      if (std::string_view(e.what()).starts_with(given.called)) throw;
      throw with_context(e, given.called);
    }
    return request;
  }

  bool is_of_cluster(const Config::Said& said) const {
    return said.flag == "--devices" && arguments_.has("--cluster");
  }

  std::string optimizer() const { return asked_of(arguments_).origin.optimizer.name; }
  bool is_of_another_optimizer(const SettingRow& row) const {
    const bool is_of_some = std::ranges::find(optimizer_settings, row.member, &OptimizerSetting::name) !=
                            optimizer_settings.end();
    return is_of_some && !optimizer_setting(optimizer(), row.member);
  }

  /// A saved plan has decided how to split; where the file says otherwise, that is told.
  void compare_with(const PlanRequest& plan, const SettingRow& row, const Config::Said& said) {
    const PlanRequest asked = parsed(plan, row, said);
    const std::string saved = arguments_.text("--plan");
    if (!row.print)
      return notice(fmt::format("{} has no effect: the plan {} has decided it", said.key, saved));
    const std::string is = row.print(plan), wanted = row.print(asked);
    if (wanted != is)
      notice(fmt::format("{} is {} but the plan {} has {}, which counts", said.key, wanted, saved,
                         is.empty() ? "none" : is));
  }

  void check_mode() const {
    if (!arguments_.of_config.contains("--parallel") || arguments_.text("--parallel") != "stand_alone")
      return;
    if (const int devices = asked_of(arguments_).devices; devices > 1)
      throw error(
          "config {}: without parallelism there is 1 device, but there are {}; set use_parallel to True",
          path_, devices);
  }

  void add_batch() {
    const int devices = config_.batch.size ? asked_of(arguments_).devices : 1;
    try {
      if (const auto batch = global_batch(config_.batch, devices))
        add({"--global-batch", fmt::format("{}", *batch), config_.batch.key + " (--global-batch)"});
    } catch (const Error& e) {
      throw with_context(e, "config " + path_);
    }
  }

  Arguments arguments_;
  std::string path_;
  Config config_;
};

}  // namespace

Arguments with_config(Arguments arguments) { return ConfigDoor(std::move(arguments)).run(); }

}  // namespace shardwright
