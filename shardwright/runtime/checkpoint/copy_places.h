// Where copies of a training's state lie, so that it survives the loss of hosts: each part on several of them.
//
// What the plan has replicated over hosts is there already, and each of them puts its own with its keeper; the rest goes
// over the network to the hosts behind the one that has it. Parts that lie alike stand in one file, which is a shard of a
// checkpoint.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "shardwright/runtime/checkpoint/shard.h"

namespace shardwright {

/// A file on a host.
struct CopyPlace {
  int host = 0;
  int rank = 0;  // of that host, which writes it
  int from = 0;  // the rank that it gets it from; itself: it holds what stands in it
  auto operator<=>(const CopyPlace&) const = default;
};

struct CopiedShard {
  std::vector<NamedBox> parts = {};
  std::vector<CopyPlace> places = {};  // each on another host; the first holds it
  std::int64_t bytes = 0;              // of the parts
};

/// `hosts`: by rank. On as many hosts as are asked for, at most all. Work and memory are spread evenly.
std::vector<CopiedShard> copied_shards(const Pipeline& pipeline, const KeptValues& kept,
                                       const std::vector<int>& hosts, int copies);

/// What a save of them takes, of the host that it takes most of.
struct CopyPrice {
  int copies = 0;                // hosts that each part lies on
  std::int64_t state_bytes = 0;  // once
  std::int64_t host_bytes = 0;   // kept of one save; twice, as the one before stays until it is whole
  std::int64_t sent_bytes = 0;   // over the network
  double seconds = 0;            // that this takes the rank that sends most
};
/// `bytes_per_second`: of each rank's link to other hosts.
CopyPrice price_of(const std::vector<CopiedShard>& shards, double bytes_per_second);

}  // namespace shardwright
