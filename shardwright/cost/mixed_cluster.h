// Clusters whose devices are of several kinds: each a cluster of its own, joined by a link between nodes.
//
//   h100:8+a100-80g:8    ranks 0 to 7: H100, ranks 8 to 15: A100
//
// What works on devices of several kinds waits for the slowest, and has room where the least memory is: so a cluster's own figures
// are these, and whoever knows nothing of kinds prices too high, never too low. A stage on devices of one kind has that one's
// (Cluster::part).
#pragma once

#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"

namespace shardwright {

/// `kinds` one after the other, with `between` joining all devices. Throws: Error where they are too many.
Cluster joined(std::string name, std::vector<Cluster> kinds, LinkLevel between);
/// Of two levels what each takes longest.
LinkLevel slower_of(LinkLevel a, const LinkLevel& b);

/// Products of bf16 that a device does in a second, as far as kernels reach its peak.
double speed_of(const Cluster& cluster);
/// What a device is, without how many there are and how they are joined.
void set_devices(Cluster& to, const Cluster& from);

/// Of each kind that is among the `count` devices from `first` on those; empty where all devices are of one kind.
std::vector<Cluster> part_of_kinds(const Cluster& cluster, int first, int count);
/// Each kind with what is asked of the whole cluster.
inline std::vector<Cluster> kinds_of(const Cluster& cluster) {
  return part_of_kinds(cluster, 0, cluster.devices());
}
/// Makes `kinds`, if there are any, those of `cluster`.
void set_kinds(Cluster& cluster, std::vector<Cluster> kinds);

/// `count` devices of the fastest kind that has as many next to each other, with the best rates of all that have; where none has,
/// the first ones.
Cluster fastest_part(const Cluster& cluster, int count);
/// Devices of the mean of what the kinds of `cluster` reach, as far as their kernels reach their peaks: where each has as much of a
/// batch as it is fast, a step takes as long as on as many of these. Their memory is the least.
Cluster of_mean_device(Cluster cluster);
/// As fastest_part, of devices as fast as those of any of the stages of `count` devices that `cluster` is cut into, too, where replicas
/// have shares by speed.
Cluster fastest_stage_by_shares(const Cluster& cluster, int count);
/// Which kind the `count` devices from `first` on are of; nothing where they are of several, or the cluster has but one.
std::optional<std::size_t> kind_of(const Cluster& cluster, int first, int count);

}  // namespace shardwright
