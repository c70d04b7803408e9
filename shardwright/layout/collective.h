// What one collective costs on a group of ranks that links of several levels join, by the algorithm that fits.
//
// A collective pays once to start, each round of messages a latency a, and every byte b seconds. In a level of n ranks
// there are r = ceil(log2 n) rounds, and S bytes cost beside the start
//
//   all_gather, reduce_scatter   r a + (N-1) m + (n-1)/n S b     Bruck, recursive halving; m: of a ring, each further member
//   all_reduce                   2 r a + (N-1) m + 2 (n-1)/n S b reduce_scatter, then all_gather
//                                r (a + S b), if that is less    recursive doubling, a tree: for small S
//   all_to_all                   r a + r/2 S b, or (n-1) a + (n-1)/n S b    Bruck for small S, else pairwise
//   permute, halo                a + S b                         one message
//
// m is that of the outermost level, N all ranks of the group.
// Over several levels collectives are hierarchical: a level sees S / (the product of all more inner n), so that
// over two nodes of eight an all_reduce moves an eighth over the slow link. An all_to_all sends directly: of S
// what leaves the node passes the outer link, S / (outer n) at most the inner.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH (2005).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardwright {

enum class StepKind : std::uint8_t {
  slice,
  mask,
  all_gather,
  all_to_all,
  reduce_scatter,
  all_reduce,
  permute,
  exchange,
  halo,
  fetch,
  evict
};
std::string_view name_of(StepKind kind);
/// Adds up or compares what ranks hold.
inline bool is_reducing(StepKind kind) {
  return kind == StepKind::all_reduce || kind == StepKind::reduce_scatter;
}
/// slice and mask move nothing between ranks.
inline bool is_local(StepKind kind) { return kind == StepKind::slice || kind == StepKind::mask; }
/// Moves between the memory of a device and that of its host, and between no ranks.
inline bool is_of_host(StepKind kind) { return kind == StepKind::fetch || kind == StepKind::evict; }
/// While it is on its way its result is being written.
inline bool is_written_from_start(StepKind kind) { return kind == StepKind::all_reduce || is_of_host(kind); }
/// Moves between ranks.
inline bool is_collective(StepKind kind) { return !is_local(kind) && !is_of_host(kind); }

/// How devices of a level are joined, which says what a group of n of its N devices gets of their bandwidth:
/// through a switch all of it; each with each other (mesh) (n-1)/(N-1); along the dims of a cube log n / log N, and an
/// all_to_all half of its bytes along each.
enum class Wiring : std::uint8_t { switched, mesh, cube };
std::string_view name_of(Wiring wiring);

/// What one level of links costs to communicate over.
struct LinkCost {
  double start_seconds = 1e-5;      // of a collective
  double seconds_per_byte = 1e-10;  // while all devices of the level communicate
  double latency_seconds = 0;       // of each round of messages
  double member_seconds = 0;        // of what goes round as a ring, for each further rank of its group
  Wiring wiring = Wiring::switched;
  int devices = 0;  // N, where the wiring asks for it
  int level = 0;    // which of a cluster's links
  bool operator==(const LinkCost&) const = default;
};

/// Ranks of a group that links of one level join.
struct GroupLink {
  int ranks = 1;
  LinkCost link;
  double share = 1;  // of its bytes, that an all_gather or reduce_scatter moves (layout/routing.h)
};

/// Seconds of a collective of a group, its levels outermost first. `bytes` is S: what a rank holds before it, of an
/// all_gather or a permute what it holds after it; of a halo what it receives.
/// Allocates nothing. An exchange is no collective of a group: see redistribution.h.
double collective_seconds(StepKind kind, double bytes, std::span<const GroupLink> group);

/// How long a collective moves its bytes on the links of one level, if nothing else does.
struct LinkUse {
  int level = 0;
  double seconds = 0;
};
/// Those of collective_seconds, innermost first: all of its seconds but starts and latencies.
std::vector<LinkUse> link_uses(StepKind kind, double bytes, std::span<const GroupLink> group);

}  // namespace shardwright
