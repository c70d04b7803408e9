#include "shardwright/cli/set_flags.h"

#include <algorithm>
#include <utility>

#include "shardwright/cost/cluster.h"
#include "shardwright/plan/optimizer_parallel.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

class SetDoor {
 public:
  explicit SetDoor(Arguments arguments)
      : arguments_(std::move(arguments)), said_(parse_set(arguments_.given("--set")).said) {}

  Arguments run() {
    set_machine();
    if (said_.degrees.devices() > 1) add("--parallel", "semi_auto_parallel", "");
    add("--stages", fmt::format("{}", stages()), "pp");
    if (said_.global_batch) add("--global-batch", fmt::format("{}", *said_.global_batch), "global_batch");
    set_micro_batches();
    set_step();
    set_schedule();
    if (by_sequence() && said_.degrees.of("tp") == 1)
      arguments_.notices.push_back("--set sequence_parallel=1 has no effect: tp is 1");
    tell_idle_operators();
    tell_idle("zero", arguments_.text("--optimizer-parallel", "0") == "0", {"zero_threshold", "zero_group"});
    tell_idle("cp", said_.degrees.of("cp") == 1, {"context"});
    tell_idle("dp", said_.degrees.of("dp") == 1, {"batch_shares"});
    tell_idle("recompute", arguments_.text("--recompute", "none").starts_with("none"),
              {"recompute_communication", "recompute_shard_kept"});
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

  /// Words that say how something is done which is not done.
  void tell_idle(std::string_view what, bool is_off, std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words)
      if (is_off && constraint_word(word).is_said(said_))
        arguments_.notices.push_back(fmt::format("--set {} has no effect: there is no {}", word, what));
  }

  void tell_idle_operators() {
    for (const auto& [name, split] : said_.operators)
      for (const auto& [loop, by] : split)
        for (const std::string& degree : by)
          if (said_.degrees.of(degree) == 1)
            arguments_.notices.push_back(
                fmt::format("--set {}={}: {} has no effect, it is 1", name, to_text(split), degree));
  }

  std::string degrees() const {
    const int context = said_.degrees.of("cp");
    return fmt::format("dp={} x tp={} x pp={}{}", said_.degrees.of("dp"), said_.degrees.of("tp"), stages(),
                       context > 1 ? fmt::format(" x cp={}", context) : "");
  }
  int stages() const { return said_.degrees.of("pp"); }
  bool by_sequence() const { return said_.sequence_parallel.value_or(false); }

  void set_machine() {
    if (said_.degrees.devices() > most_devices)
      throw error("--set: {} are {} devices, more than any cluster has", degrees(), said_.degrees.devices());
    if (!arguments_.has("--cluster"))
      return add("--devices", fmt::format("{}", said_.degrees.devices()),
                 said_.degrees.of("cp") > 1 ? "dp*tp*pp*cp" : "dp*tp*pp");
    std::string& name = arguments_.flags.at("--cluster");
    const auto is_it = [&](const ClusterPreset& p) { return p.cluster.name == name; };
    if (std::ranges::any_of(cluster_presets(), is_it)) name += fmt::format(":{}", said_.degrees.devices());
    if (const int has = cluster_called(name).devices(); has != said_.degrees.devices())
      throw error("--set: {} are {} devices but --cluster {} has {}; dp={} would use them", degrees(),
                  said_.degrees.devices(), name, has,
                  std::max(1, has / said_.degrees.of("tp") / said_.degrees.of("cp") / stages()));
  }

  void set_micro_batches() {
    if (said_.micro_batches) add("--micro-batches", fmt::format("{}", *said_.micro_batches), "micro_batches");
    if (said_.interleave)
      add("--micro-batch-interleave", fmt::format("{}", *said_.interleave), "micro_batch_interleave");
    if (!said_.micro_batch) return;
    if (!arguments_.has("--global-batch"))
      throw error("--set micro_batch={}: needs global_batch=, the samples of a step", *said_.micro_batch);
    const std::int64_t batch = arguments_.integer("--global-batch", 0),
                       parts = arguments_.integer("--micro-batch-interleave", 1),
                       at_once = said_.degrees.of("dp") * *said_.micro_batch * parts;
    const bool has_parts = parts > 1;
    if (batch % at_once)
      throw error("--set: global_batch={} should be a multiple of dp={} x micro_batch={}{}, {}", batch,
                  said_.degrees.of("dp"), *said_.micro_batch,
                  has_parts ? fmt::format(" x micro_batch_interleave={}", parts) : "", at_once);
    add("--micro-batches", fmt::format("{}", batch / at_once),
        has_parts ? "global_batch/(dp*micro_batch*micro_batch_interleave)" : "global_batch/(dp*micro_batch)");
  }

  /// What has flags of its own, which then may not say otherwise.
  void set_step() {
    Constraints of_flags = said_;
    of_flags.recomputed.clear();
    of_flags.stages.clear();
    const Settings asked = settings_of(of_flags);
    if (said_.zero) add("--optimizer-parallel", to_text(asked.optimizer_parallel), "zero");
    if (said_.recompute) add("--recompute", to_text(asked.recompute), "recompute");
    if (said_.offload || !said_.hosted.empty()) add("--offload", to_text(asked.offload), "offload");
    if (said_.comm_fusion) add("--comm-fusion", to_text(asked.comm_fusion), "comm_fusion");
    if (said_.framework) add("--framework", asked.framework, "framework");
    if (said_.dataset)
      add("--dataset-strategy",
          said_.dataset->word.empty() ? to_text(said_.dataset->splits.in) : said_.dataset->word, "dataset");
  }

  /// Where there is one stage, its micro-batches can only run one after the other.
  void set_schedule() {
    if (!said_.schedule) return;
    if (stages() > 1)
      add("--schedule", to_text(*said_.schedule), "schedule");
    else if (said_.schedule->chunks > 1)
      throw error("--set schedule={}: is for several stages but pp is 1", name_of(*said_.schedule));
  }

  Arguments arguments_;
  Constraints said_;
};

}  // namespace

Arguments with_set(Arguments arguments) {
  // What a plan has decided is said by who reads it.
  const bool is_planned = !arguments.positionals.empty() && arguments.positionals[0].ends_with(".json");
  if (is_planned || arguments.has("--plan")) return arguments;
  return SetDoor(std::move(arguments)).run();
}

}  // namespace shardwright
