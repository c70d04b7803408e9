// The settings that say how much of a device's memory plans may use, and what is known of its load.

#include "shardwright/base/quantity.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// The smaller of the two counts.
void cap_memory(PlanRequest& r, const Given& given) {
  const auto bytes = to_bytes(given.text);
  if (!bytes) throw given.wrong("should be a number of bytes, such as 60GB, 512MiB or 4096");
  r.options.memory_cap = std::min(*bytes, r.options.memory_cap.value_or(*bytes));
}

void set_memory_margin(PlanRequest& r, const Given& given) {
  const auto share = to_share(given.text);
  if (!share) throw given.wrong(what_shares_are);
  if (!r.cluster) r.cluster = host_cluster(r.devices);
  r.cluster->memory_margin = *share;
}

void set_routing_imbalance(PlanRequest& r, const Given& given) {
  const double times = given.number();
  if (times < 1) throw given.wrong("should be at least 1, which is none");
  if (!r.cluster) r.cluster = host_cluster(r.devices);
  r.cluster->routing_imbalance = times;
}

}  // namespace

std::vector<SettingRow> memory_settings() {
  return {{.flag = "--memory-cap",
           .value = "BYTES",
           .doc = "memory of each device that a plan may use, such as 60GB or 512MiB",
           .part = SettingPart::memory,
           .parse = cap_memory},
          {.flag = "--device-memory",
           .value = "BYTES",
           .doc = "memory that each device has; limits plans as --memory-cap does",
           .part = SettingPart::memory,
           .parse = cap_memory},
          {.flag = "--memory-margin",
           .value = "SHARE",
           .doc = "of each device's memory, less what driver and runtime take, what plans keep free where no "
                  "cap is said (default 6% on accelerators)",
           .part = SettingPart::memory,
           .member = "memory_margin",
           .parse = set_memory_margin},
          {.flag = "--routing-imbalance",
           .value = "TIMES",
           .doc = "of the devices that share experts, how many times the mean the busiest has to do, as it "
                  "is priced (default 1)",
           .part = SettingPart::memory,
           .member = "routing_imbalance",
           .parse = set_routing_imbalance}};
}

}  // namespace shardwright
