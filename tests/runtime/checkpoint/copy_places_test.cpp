// Where copies of a state lie: of any plan, on any hosts.

#include "shardwright/runtime/checkpoint/copy_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "tests/support/drawn_pipeline.h"

namespace shardwright {
namespace {

/// `per_host` ranks on each, but for the last.
std::vector<int> hosts_of(int ranks, int per_host) {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r) out.push_back(r / per_host);
  return out;
}

/// Whether the rank has it in its own memory.
bool holds(const KeptValues& kept, int rank, const NamedBox& part) {
  return std::ranges::any_of(kept.held_by(rank), [&](const NamedBox& held) {
    return held.name == part.name && intersect(held.where, part.where) == part.where;
  });
}

void check_places(const CopiedShard& shard, const KeptValues& kept, const std::vector<int>& hosts,
                  int copies) {
  std::set<int> lies_on;
  for (const CopyPlace& place : shard.places) {
    lies_on.insert(place.host);
    EXPECT_EQ(hosts[at(place.rank)], place.host);
    if (place.from != place.rank) {
      EXPECT_EQ(place.from, shard.places.front().rank) << "is sent by one that does not keep it";
      EXPECT_NE(hosts[at(place.from)], place.host) << "is sent within a host";
      continue;
    }
    for (const NamedBox& part : shard.parts) EXPECT_TRUE(holds(kept, place.rank, part)) << part.name;
  }
  EXPECT_EQ(shard.places.front().from, shard.places.front().rank);
  EXPECT_EQ(static_cast<int>(lies_on.size()), copies);
}

TEST(CopyPlaces, each_part_is_on_as_many_hosts_as_are_asked_for) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const KeptValues kept(drawn.pipeline);
    for (const int per_host : {1, 2}) {
      const std::vector<int> hosts = hosts_of(drawn.pipeline.rank_count(), per_host);
      for (int copies = 1; copies <= hosts.back() + 1; ++copies) {
        SCOPED_TRACE(fmt::format("{}: {} a host, {} copies", drawn.what, per_host, copies));
        const std::vector<CopiedShard> shards = copied_shards(drawn.pipeline, kept, hosts, copies);
        std::vector<std::vector<NamedBox>> parts;
        for (const CopiedShard& shard : shards) {
          check_places(shard, kept, hosts, copies);
          parts.push_back(shard.parts);
        }
        // Which throws where parts are missing or twice.
        std::int64_t bytes = 0;
        for (const SavedTensor& t : saved_tensors(drawn.pipeline, kept, parts)) bytes += t.type.bytes();
        EXPECT_EQ(price_of(shards, 1).state_bytes, bytes);
      }
    }
  }
}

TEST(CopyPlaces, what_is_replicated_over_hosts_is_not_sent) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    const KeptValues kept(drawn.pipeline);
    const std::vector<int> hosts = hosts_of(drawn.pipeline.rank_count(), 1);
    SCOPED_TRACE(drawn.what);
    std::int64_t sent = 0, alone = 0;
    const int copies = std::min(2, hosts.back() + 1);
    for (const CopiedShard& shard : copied_shards(drawn.pipeline, kept, hosts, copies))
      for (const CopyPlace& place : shard.places) sent += place.from != place.rank ? shard.bytes : 0;
    for (const HeldPart& held : held_parts(drawn.pipeline, kept))
      alone += held.ranks.size() < at(copies) ? held.bytes : 0;
    EXPECT_EQ(sent, alone);
  }
}

}  // namespace
}  // namespace shardwright
