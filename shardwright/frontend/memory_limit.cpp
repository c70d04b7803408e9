#include "shardwright/frontend/memory_limit.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/frontend/report.h"

namespace shardwright {

namespace {

/// What the memory is for, most first, without what hardly counts: `1.6 MB parameters, 0.8 MB activations`.
std::string kinds_text(const Estimate& e) {
  std::vector<std::pair<std::int64_t, std::string_view>> kinds;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    if (e.memory.bytes[k] > e.arena_bytes / 100)
      kinds.emplace_back(e.memory.bytes[k], name_of(static_cast<MemoryKind>(k)));
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> out;
  for (const auto& [bytes, name] : kinds) out.push_back(fmt::format("{} {}", bytes_text(bytes), name));
  return join(out, ", ");
}

/// `dense1.weight 1.6 MB, %36 (gradients) 524.3 KB`: values that nobody has named have a number.
std::string consumers_text(const MemoryUse& use) {
  std::vector<std::string> out;
  for (const MemoryConsumer& c : use.largest) {
    const std::string name = to_integer(c.name) ? fmt::format("%{} ({})", c.name, name_of(c.kind)) : c.name;
    out.push_back(fmt::format("{} {}", name, bytes_text(c.bytes)));
  }
  return join(out, ", ");
}

}  // namespace

std::string misfit_text(const Evaluation& e, std::string_view limit, std::string_view what) {
  return fmt::format("{} takes {} of each device, {} more than {}: {}; the largest are {}", what,
                     bytes_text(e.estimate.arena_bytes), bytes_text(e.excess_bytes()), limit,
                     kinds_text(e.estimate), consumers_text(e.estimate.memory));
}

std::string misfit_notice(const Evaluation& e, const Cluster& cluster) {
  return e.fits() ? "" : misfit_text(e, fmt::format("a device of {} has", cluster.name)) + "\n";
}

namespace {

/// Nothing of it goes to the host, or more than that has.
std::string host_notice(const Evaluation& e, const Cluster& c, const Offload& offload) {
  const std::string what = to_text(offload);
  if (!offload.is_on()) return "";
  if (e.estimate.host_bytes == 0)
    return fmt::format("offload {} has no effect: the step has nothing of it that can go to the host{}\n",
                       what, offload.optimizer > 0 ? " (some optimizers keep no states)" : "");
  const double all = static_cast<double>(e.estimate.host_bytes) * c.devices_per_node;
  if (c.host.memory_bytes == 0 || all <= static_cast<double>(c.host.memory_bytes)) return "";
  return fmt::format("offload {} takes {} of the host for each of {} devices, but a host of {} has {}\n",
                     what, bytes_text(e.estimate.host_bytes), c.devices_per_node, c.name,
                     bytes_text(c.host.memory_bytes));
}

}  // namespace

std::string memory_notices(const Evaluation& e, const Cluster& cluster, const Offload& offload) {
  return misfit_notice(e, cluster) + host_notice(e, cluster, offload);
}

void check_memory(const Evaluation& e, std::string_view limit) {
  if (!e.fits()) throw Infeasible(misfit_text(e, limit));
}

}  // namespace shardwright
