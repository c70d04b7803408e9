#include "shardwright/layout/collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

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
  double share = 1;

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
    const auto& [innermost, link, share] = group[end - 1];
    int ranks = 1;
    for (; end > 0 && group[end - 1].link == link; --end) ranks *= group[end - 1].ranks;
    if (ranks > 1) use(GroupLevel{ranks, link, share});
  }
}

// Each algorithm calls `use` with the levels that it uses, innermost first: seconds of its rounds' latency there, and
// of its bytes on the links.

/// All_gather or reduce_scatter of `bytes`, so many times; on the outermost level they are a ring, which ends when a part has
/// gone through all ranks: behind one another such rings overlap.
template <class F>
void half_of_reduce(double bytes, std::span<const GroupLink> group, int times, F use) {
  int ranks = 1;
  double outermost = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    ranks *= level.ranks;
    outermost = level.link.member_seconds;
  });
  for_each_level(group, [&](const GroupLevel& level) {
    const double ring = std::exchange(outermost, 0) * (ranks - 1);
    use(level.link, ring + times * level.rounds() * level.latency(),
        times * level.share * level.others(bytes));
    bytes /= level.ranks;
  });
}

template <class F>
void recursive_doubling(double bytes, std::span<const GroupLink> group, F use) {
  for_each_level(group, [&](const GroupLevel& level) {
    use(level.link, level.rounds() * level.latency(), level.rounds() * bytes * level.per_byte());
  });
}

template <class F>
void all_to_all(double bytes, std::span<const GroupLink> group, F use) {
  int outer = 1;
  for (const GroupLink& g : group) outer *= g.ranks;
  for_each_level(group, [&](const GroupLevel& level) {
    outer /= level.ranks;
    const double stays = bytes / outer;
    const double bruck_latency = level.rounds() * level.latency();
    const double bruck_bytes = level.rounds() * stays / 2 * level.per_byte();
    const double latency = (level.ranks - 1) * level.latency(), moving = level.exchanged(stays);
    const bool is_bruck = bruck_latency + bruck_bytes < latency + moving;
    use(level.link, is_bruck ? bruck_latency : latency, is_bruck ? bruck_bytes : moving);
  });
}

/// One message over the slowest link.
template <class F>
void message(double bytes, std::span<const GroupLink> group, F use) {
  double worst = -1;
  LinkCost link;
  double latency = 0, moving = 0;
  for_each_level(group, [&](const GroupLevel& level) {
    const double seconds = level.latency() + bytes * level.per_byte();
    if (seconds <= worst) return;
    worst = seconds;
    link = level.link, latency = level.latency(), moving = bytes * level.per_byte();
  });
  if (worst >= 0) use(link, latency, moving);
}

/// What an algorithm takes in all.
template <class Algorithm>
double sum_of(Algorithm algorithm) {
  double seconds = 0;
  algorithm([&](const LinkCost&, double latency, double moving) { seconds += latency + moving; });
  return seconds;
}

template <class F>
void move(StepKind kind, double bytes, std::span<const GroupLink> group, F use) {
  switch (kind) {
    case StepKind::all_gather:
    case StepKind::reduce_scatter: return half_of_reduce(bytes, group, 1, use);
    case StepKind::all_reduce: {
      const double halves = sum_of([&](auto add) { half_of_reduce(bytes, group, 2, add); });
      const double tree = sum_of([&](auto add) { recursive_doubling(bytes, group, add); });
      return tree < halves ? recursive_doubling(bytes, group, use) : half_of_reduce(bytes, group, 2, use);
    }
    case StepKind::all_to_all: return all_to_all(bytes, group, use);
    case StepKind::permute:
    case StepKind::halo: return message(bytes, group, use);
    default: break;
  }
  throw InternalError("a step that no group does together has no price here");
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::array<std::string_view, 11> names{"slice",          "mask",       "all_gather", "all_to_all",
                                                   "reduce_scatter", "all_reduce", "permute",    "exchange",
                                                   "halo",           "fetch",      "evict"};
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
  if (is_alone) return 0;
  return start + sum_of([&](auto add) { move(kind, bytes, group, add); });
}

std::vector<LinkUse> link_uses(StepKind kind, double bytes, std::span<const GroupLink> group) {
  std::vector<LinkUse> out;
  move(kind, bytes, group, [&](const LinkCost& link, double, double moving) {
    out.push_back({link.level, moving});
  });
  return out;
}

}  // namespace shardwright
