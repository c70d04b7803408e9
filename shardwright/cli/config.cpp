#include "shardwright/cli/config.h"

#include <utility>

#include "shardwright/cli/config_file.h"
#include "shardwright/cli/planning.h"

namespace shardwright {
namespace {

class Flags {
 public:
  Flags(Arguments arguments, const Config& config)
      : arguments_(std::move(arguments)), config_(config), path_(arguments_.text("--config")) {}

  Arguments run() {
    for (const std::string& key : config_.inactive) notice(fmt::format("{} is not active yet", key));
    if (!arguments_.has("--plan")) add_planning();  // a saved plan has decided it
    try {
      if (const auto batch = global_batch(config_, devices_of(arguments_)))
        add("--global-batch", fmt::format("{}", *batch));
    } catch (const Error& e) {
      throw with_context(e, "config " + path_);
    }
    // Synthetic data have no end, so that epochs are of use only with data.
    if (config_.epochs && arguments_.has("--data") && !arguments_.has("--steps"))
      add("--epochs", fmt::format("{}", *config_.epochs));
    return std::move(arguments_);
  }

 private:
  void add(const std::string& flag, const std::string& value) { arguments_.flags.emplace(flag, value); }
  void notice(const std::string& text) {
    arguments_.notices.push_back(fmt::format("config {}: {}", path_, text));
  }

  void add_planning() {
    if (config_.devices && !arguments_.has("--cluster"))
      add("--devices", fmt::format("{}", *config_.devices));
    if (config_.mode) add("--parallel", std::string(name_of(*config_.mode)));
    if (!config_.recompute.empty()) add("--recompute", config_.recompute);
    add_pipelining();
    const Parallel mode = mode_of(arguments_);
    const int devices = devices_of(arguments_);
    if (mode == Parallel::stand_alone && config_.mode == mode && devices > 1)
      throw error(
          "config {}: without parallelism there is 1 device, but there are {}; set use_parallel to True",
          path_, devices);
    if (mode == Parallel::stand_alone) return;
    if (!config_.dataset_strategy.empty()) add("--dataset-strategy", config_.dataset_strategy);
    if (config_.optimizer_parallel > 0) add("--optimizer-parallel", optimizer_parallel());
    if (!config_.comm_fusion.empty()) add("--comm-fusion", config_.comm_fusion);
    if (mode == Parallel::auto_parallel) add_search();
  }

  void add_pipelining() {
    const bool is_said =
        arguments_.has("--stages") || arguments_.has("--accumulate") || arguments_.has("--plan");
    if (is_said) return;
    if (config_.stages > 1) {
      add("--stages", fmt::format("{}", config_.stages));
      add("--micro-batches", fmt::format("{}", config_.micro_batches));
    } else if (config_.accumulation > 1) {
      add("--accumulate", fmt::format("{}", config_.accumulation));
    }
  }

  std::string optimizer_parallel() const {
    std::string out = fmt::format("{}", config_.optimizer_parallel);
    char separator = ':';
    const auto add_setting = [&](std::string_view key, const std::optional<std::int64_t>& value) {
      if (value) out += fmt::format("{}{}={}", std::exchange(separator, ','), key, *value);
    };
    add_setting("threshold", config_.optimizer_threshold);
    add_setting("group", config_.optimizer_group);
    return out;
  }

  void add_search() {
    add_search_name();
    if (config_.mem_coeff)
      add_setting(Setting::mem_coeff, "mem_coeff", "--mem-coeff", fmt::format("{}", *config_.mem_coeff));
    if (config_.fully_use_devices)
      add_setting(Setting::fully_use_devices, "fully_use_devices", "--fully-use-devices",
                  *config_.fully_use_devices ? "1" : "0");
    if (config_.elementwise_follow)
      add_setting(Setting::elementwise_follow, "elementwise_op_strategy_follow", "--elementwise-follow",
                  *config_.elementwise_follow ? "1" : "0");
  }

  void add_search_name() try {
    if (!config_.search.empty() && !arguments_.has("--search"))
      add("--search", find_search(config_.search).name);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("config {}: parallel.search_mode", path_));
  }

  /// Files carry settings along for whichever search will run.
  void add_setting(Setting setting, const std::string& key, const std::string& flag,
                   const std::string& value) {
    const Searcher& search = search_of(arguments_);
    if (heeds(search, setting)) return add(flag, value);
    notice(fmt::format("{} is no setting of search {}", key, search.name));
  }

  Arguments arguments_;
  const Config& config_;
  std::string path_;
};

}  // namespace

Arguments with_config(Arguments arguments) {
  const Config config = load_config(arguments.text("--config"));
  return Flags(std::move(arguments), config).run();
}

}  // namespace shardwright
