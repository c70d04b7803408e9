#include "shardwright/cli/expert_flags.h"

#include <algorithm>
#include <utility>

#include "shardwright/cost/cluster.h"
#include "shardwright/plan/schedule.h"
#include "shardwright/search/planning/expert.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

class ExpertDoor {
 public:
  explicit ExpertDoor(Arguments arguments)
      : arguments_(std::move(arguments)), expert_(parse_expert(arguments_.given("--set"))) {}

  Arguments run() {
    set_machine();
    if (expert_.devices() > 1) add("--parallel", "semi_auto_parallel", "");
    add("--stages", fmt::format("{}", expert_.stage_count()), "pp");
    if (expert_.global_batch) add("--global-batch", fmt::format("{}", *expert_.global_batch), "global_batch");
    set_micro_batches();
    if (expert_.zero) add("--optimizer-parallel", fmt::format("{}", *expert_.zero), "zero");
    set_recompute();
    set_schedule();
    if (expert_.degrees().sequence && expert_.degrees().tensor == 1)
      arguments_.notices.push_back("--set sequence_parallel=1 has no effect: tp is 1");
    arguments_.heed_none();  // here flags were only looked at
    return std::move(arguments_);
  }

 private:
  /// `key` is the word of --set that says it.
  void add(const std::string& flag, const std::string& value, std::string_view key) {
    const auto [it, is_new] = arguments_.flags.emplace(flag, value);
    if (!is_new && it->second != value)
      throw error("{} {} and --set{} contradict each other; leave one out", arguments_.called(flag),
                  it->second, key.empty() ? "" : fmt::format(" {}={}", key, value));
    if (is_new) arguments_.names[flag] = key.empty() ? "--set" : fmt::format("--set {}", key);
  }

  std::string degrees() const {
    return fmt::format("dp={} x tp={} x pp={}", expert_.degrees().data, expert_.degrees().tensor,
                       expert_.stage_count());
  }

  void set_machine() {
    if (expert_.devices() > most_devices)
      throw error("--set: {} are {} devices, more than any cluster has", degrees(), expert_.devices());
    if (!arguments_.has("--cluster"))
      return add("--devices", fmt::format("{}", expert_.devices()), "dp*tp*pp");
    std::string& name = arguments_.flags.at("--cluster");
    const auto is_it = [&](const ClusterPreset& p) { return p.cluster.name == name; };
    if (std::ranges::any_of(cluster_presets(), is_it)) name += fmt::format(":{}", expert_.devices());
    if (const int has = cluster_called(name).devices(); has != expert_.devices())
      throw error("--set: {} are {} devices but --cluster {} has {}; dp={} would use them", degrees(),
                  expert_.devices(), name, has,
                  std::max(1, has / expert_.degrees().tensor / expert_.stage_count()));
  }

  void set_micro_batches() {
    if (!expert_.micro_batch) return;
    if (!arguments_.has("--global-batch"))
      throw error("--set micro_batch={}: needs global_batch=, the samples of a step", *expert_.micro_batch);
    const std::int64_t batch = arguments_.integer("--global-batch", 0),
                       at_once = expert_.degrees().data * *expert_.micro_batch;
    if (batch % at_once)
      throw error("--set: global_batch={} should be a multiple of dp={} x micro_batch={}, {}", batch,
                  expert_.degrees().data, *expert_.micro_batch, at_once);
    add("--micro-batches", fmt::format("{}", batch / at_once), "global_batch/(dp*micro_batch)");
  }

  void set_recompute() {
    if (!expert_.recompute) return;
    const RecomputeMode mode = *expert_.recompute;
    add("--recompute",
        to_text(Recompute{.mode = mode, .options = recompute_options(mode, expert_.degrees().sequence)}),
        "recompute");
  }

  /// Where there is one stage, its micro-batches can only run one after the other.
  void set_schedule() {
    if (!expert_.schedule) return;
    const std::string name = name_of(*expert_.schedule);
    if (expert_.stage_count() > 1)
      add("--schedule", name, "schedule");
    else if (expert_.schedule->chunks > 1)
      throw error("--set schedule={}: is for several stages but pp is 1", name);
  }

  Arguments arguments_;
  Expert expert_;
};

}  // namespace

Arguments with_expert(Arguments arguments) {
  // What a plan has decided is said by who reads it.
  const bool is_planned = !arguments.positionals.empty() && arguments.positionals[0].ends_with(".json");
  if (is_planned || arguments.has("--plan")) return arguments;
  return ExpertDoor(std::move(arguments)).run();
}

}  // namespace shardwright
