#include "shardwright/cli/config.h"

#include <utility>

#include "shardwright/base/text.h"
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
    for (const std::string& text : config_.idle) notice(text);
    if (arguments_.has("--plan"))
      compare_with(saved_plan(arguments_));
    else
      add_planning();
    try {
      if (const auto batch = global_batch(config_, devices_of(arguments_)))
        add("--global-batch", fmt::format("{}", *batch));
    } catch (const Error& e) {
      throw with_context(e, "config " + path_);
    }
    add_epochs();
    arguments_.heed_none();  // here flags were only looked at
    arguments_.heed("--config");
    return std::move(arguments_);
  }

 private:
  void add(const std::string& flag, const std::string& value) {
    if (arguments_.flags.emplace(flag, value).second) arguments_.of_config.insert(flag);
  }
  void notice(const std::string& text) {
    arguments_.notices.push_back(fmt::format("config {}: {}", path_, text));
  }

  /// Other verbs do not train; whether the data have an end is seen when they are read.
  void add_epochs() {
    if (!config_.epochs || arguments_.words.empty() || arguments_.words[0] != "train") return;
    if (arguments_.has("--steps"))
      notice("runner_config.epochs has no effect: --steps says when to end");
    else
      add("--epochs", fmt::format("{}", *config_.epochs));
  }

  /// A saved plan has decided how to split; where the file says otherwise, that is told.
  void compare_with(const Plan& plan) {
    const auto compare = [&](std::string_view key, const std::string& said, const std::string& decided) {
      if (!said.empty() && said != decided)
        notice(fmt::format("{} is {} but the plan {} has {}, which counts", key, said,
                           arguments_.text("--plan"), decided.empty() ? "none" : decided));
    };
    const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
    if (config_.devices) compare("device_num", number(*config_.devices), number(plan.devices));
    if (config_.mode) compare("parallel_mode", std::string(name_of(*config_.mode)), plan.parallel);
    if (!config_.search.empty() && config_.mode == Parallel::auto_parallel)
      compare("search_mode", search_name(), plan.search);
    if (config_.stages > 1) compare("pipeline_stage", number(config_.stages), number(plan.pipelining.stages));
    const std::int64_t parts = config_.stages > 1 ? config_.micro_batches : config_.accumulation;
    if (parts > 1)
      compare(config_.stages > 1 ? "micro_batch_num" : "gradient_accumulation_steps", number(parts),
              number(plan.pipelining.micro_batches));
    if (config_.optimizer_parallel > 0)
      compare("enable_parallel_optimizer: level", number(config_.optimizer_parallel),
              number(plan.optimizer_parallel.level));
    if (!config_.comm_fusion.empty())
      compare("comm_fusion", to_text(parse_comm_fusion(config_.comm_fusion)), to_text(plan.comm_fusion));
    if (!config_.recompute.empty())
      compare("recompute", std::string(name_of(parse_recompute(config_.recompute).mode)),
              std::string(name_of(plan.recompute.mode)));
    compare(config_.precision_key + ", --precision", config_.precision, to_text(plan.origin.precision));
    compare("gradient_fp32_sync, --reduce-precision", config_.reduce_precision,
            plan.origin.optimizer.reduces_short ? "short" : "f32");
    compare("runner_wrapper.scale_sense, --loss-scale", config_.loss_scale,
            to_text(plan.origin.optimizer.loss_scale));
    std::vector<std::string> left_out = search_keys();
    std::erase(left_out, "search_mode");  // compared above
    if (!config_.dataset_strategy.empty()) left_out.emplace_back("dataset_strategy");
    if (config_.optimizer_threshold) left_out.emplace_back("parallel_optimizer_threshold");
    if (config_.optimizer_group) left_out.emplace_back("optimizer_weight_shard_size");
    tell_left_out(left_out, fmt::format("the plan {} has decided it", arguments_.text("--plan")));
  }

  void add_planning() {
    if (config_.devices && !arguments_.has("--cluster"))
      add("--devices", fmt::format("{}", *config_.devices));
    if (config_.mode) add("--parallel", std::string(name_of(*config_.mode)));
    if (!config_.recompute.empty()) add("--recompute", config_.recompute);
    if (!config_.precision.empty()) add("--precision", config_.precision);
    // In full precision there is nothing to tell: gradients are reduced so anyway.
    if (config_.reduce_precision == "short") add("--reduce-precision", config_.reduce_precision);
    if (!config_.loss_scale.empty()) add("--loss-scale", config_.loss_scale);
    add_pipelining();
    const Parallel mode = mode_of(arguments_);
    const int devices = devices_of(arguments_);
    if (mode == Parallel::stand_alone && config_.mode == mode && devices > 1)
      throw error(
          "config {}: without parallelism there is 1 device, but there are {}; set use_parallel to True",
          path_, devices);
    if (mode == Parallel::stand_alone) return tell_left_out(splitting_keys(), "there is 1 device");
    if (!config_.dataset_strategy.empty()) add("--dataset-strategy", config_.dataset_strategy);
    if (config_.optimizer_parallel > 0) add("--optimizer-parallel", optimizer_parallel());
    if (!config_.comm_fusion.empty()) add("--comm-fusion", config_.comm_fusion);
    if (mode == Parallel::auto_parallel)
      add_search();
    else
      tell_left_out(search_keys(), fmt::format("{} does not search", name_of(mode)));
  }

  /// What the file says of a search, by key.
  std::vector<std::string> search_keys() const {
    std::vector<std::string> out;
    if (!config_.search.empty()) out.emplace_back("search_mode");
    if (config_.mem_coeff) out.emplace_back("mem_coeff");
    if (config_.fully_use_devices) out.emplace_back("fully_use_devices");
    if (config_.elementwise_follow) out.emplace_back("elementwise_op_strategy_follow");
    return out;
  }

  /// What it says of more than one device.
  std::vector<std::string> splitting_keys() const {
    std::vector<std::string> out = search_keys();
    if (!config_.dataset_strategy.empty()) out.emplace_back("dataset_strategy");
    if (config_.optimizer_parallel > 0) out.emplace_back("enable_parallel_optimizer");
    if (!config_.comm_fusion.empty()) out.emplace_back("comm_fusion");
    return out;
  }

  void tell_left_out(const std::vector<std::string>& keys, std::string_view why) {
    if (!keys.empty())
      notice(fmt::format("{} {} no effect: {}", join(keys, ", "), keys.size() == 1 ? "has" : "have", why));
  }

  void add_pipelining() {
    if (config_.stages > 1) add("--stages", fmt::format("{}", config_.stages));
    const std::int64_t parts = config_.stages > 1 ? config_.micro_batches : config_.accumulation;
    if (parts > 1) add("--micro-batches", fmt::format("{}", parts));
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

  void add_search_name() {
    if (!config_.search.empty() && !arguments_.has("--search")) add("--search", search_name());
  }

  std::string search_name() const try { return find_search(config_.search).name; } catch (const Error& e) {
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
