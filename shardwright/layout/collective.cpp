#include "shardwright/layout/collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

/// ceil(log2 n)
double rounds_of(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

/// What a group of `ranks` gets of the bandwidth of the level.
double share_of_bandwidth(const LinkCost& link, int ranks) {
  if (link.wiring == Wiring::switched || ranks >= link.devices) return 1;
  if (link.wiring == Wiring::mesh) return (ranks - 1.0) / (link.devices - 1);
  return std::log2(ranks) / std::log2(link.devices);
}

/// Links of one level, with its ranks of the group.
struct GroupLevel {
  int ranks = 1;
  LinkCost link;

  double rounds() const { return rounds_of(ranks); }
  double latency() const { return link.latency_seconds; }
  double per_byte() const { return link.seconds_per_byte / share_of_bandwidth(link, ranks); }
  /// Seconds of `bytes` but for what a rank has itself.
  double others(double bytes) const { return (ranks - 1.0) / ranks * bytes * per_byte(); }
  /// The same where each rank has a part for each other: along a dim of a cube half of all go.
  double exchanged(double bytes) const {
    if (link.wiring != Wiring::cube) return others(bytes);
    return bytes / 2 * link.seconds_per_byte / share_of_bandwidth(link, 2);
  }
};

/// Calls `use` with each level, innermost first. Axes that equal links join are one level.
template <class F>
void for_each_level(std::span<const GroupLink> group, F use) {
  for (std::size_t end = group.size(); end > 0;) {
    const LinkCost& link = group[end - 1].link;
    int ranks = 1;
    for (; end > 0 && group[end - 1].link == link; --end) ranks *= group[end - 1].ranks;
    if (ranks > 1) use(GroupLevel{ranks, link});
  }
}

/// All_gather or reduce_scatter of `bytes`.
double half_of_reduce(double bytes, std::span<const GroupLink> group) {
  double seconds = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    seconds += level.rounds() * level.latency() + level.others(bytes);
    bytes /= level.ranks;
  });
  return seconds;
}

double recursive_doubling(double bytes, std::span<const GroupLink> group) {
  double seconds = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    seconds += level.rounds() * (level.latency() + bytes * level.per_byte());
  });
  return seconds;
}

double all_to_all(double bytes, std::span<const GroupLink> group) {
  int outer = 1;
  for (const GroupLink& g : group) outer *= g.ranks;
  double seconds = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    outer /= level.ranks;
    const double stays = bytes / outer;
    const double bruck = level.rounds() * (level.latency() + stays / 2 * level.per_byte());
    const double pairwise = (level.ranks - 1) * level.latency() + level.exchanged(stays);
    seconds += std::min(bruck, pairwise);
  });
  return seconds;
}

/// One message over the slowest link.
double message(double bytes, std::span<const GroupLink> group) {
  double worst = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    worst = std::max(worst, level.latency() + bytes * level.per_byte());
  });
  return worst;
}

double moving_seconds(StepKind kind, double bytes, std::span<const GroupLink> group) {
  switch (kind) {
    case StepKind::all_gather:
    case StepKind::reduce_scatter: return half_of_reduce(bytes, group);
    case StepKind::all_reduce:
      return std::min(2 * half_of_reduce(bytes, group), recursive_doubling(bytes, group));
    case StepKind::all_to_all: return all_to_all(bytes, group);
    case StepKind::permute:
    case StepKind::halo: return message(bytes, group);
    default: break;
  }
  throw InternalError("a step that no group does together has no price here");
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::array<std::string_view, 9> names{"slice",      "mask",           "all_gather",
                                                  "all_to_all", "reduce_scatter", "all_reduce",
                                                  "permute",    "exchange",       "halo"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Wiring wiring) {
  constexpr std::array<std::string_view, 3> names{"switched", "mesh", "cube"};
  return names[static_cast<std::size_t>(wiring)];
}

double collective_seconds(StepKind kind, double bytes, std::span<const GroupLink> group) {
  double start = 0;
  bool is_alone = true;
  for_each_level(group, [&](const GroupLevel& level) {
    start = std::max(start, level.link.start_seconds);
    is_alone = false;
  });
  return is_alone ? 0 : start + moving_seconds(kind, bytes, group);
}

}  // namespace shardwright
