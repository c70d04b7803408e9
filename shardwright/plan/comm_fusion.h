// Communication fusion: which collectives of parameters run as one.
//
// Per kind of collective one limit, in the words of --comm-fusion:
//
//   auto         as many as starting them together pays for, at most 64 MB, or more that move in four times what
//                one takes to start, and take a thirty-second of a device's memory at most (passes/buckets.h)
//   none         each on its own
//   size:MB      in the order in which gradients become ready, until the next would exceed MB; `size:0` is none
//   index:I,J    gradients 0 to I are one bucket, I+1 to J the next, the rest the last (all_reduce only)
//
// A parameter with a number of its own leaves that aside: equal numbers run as one, 0 always alone.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// That a parameter may have.
constexpr int most_fusion_number = 1'000'000;

struct BucketLimit {
  enum class Mode : std::uint8_t { automatic, none, size, index };
  Mode mode = Mode::automatic;
  std::int64_t megabytes = 64;             // of 2^20 bytes
  std::vector<std::int64_t> indices = {};  // last gradient of each bucket but the last

  std::int64_t bytes() const { return megabytes << 20; }
  auto operator<=>(const BucketLimit&) const = default;
};

/// Bytes of a bucket at most, however long starting one takes, of thousands of ranks: a thirty-second of a device's memory, if that is known, so that several
/// lie in it at a time, or the limit's.
std::int64_t most_bucket_bytes(std::int64_t memory_bytes);

/// Beyond the limit's bytes more goes together in mode auto while moving it takes at most so many times as long as starting it.
constexpr double most_times_starting = 4;

/// In mode auto the k-th bucket from the end is full when moving it takes so many times as long as starting it.
double full_at(int k);

/// Buckets that mode auto makes, about, of what takes `moving` seconds and `bytes`, where starting one takes `starting`. That are no
/// fewer than `full` ones of most_bucket_bytes.
double filled_buckets(double moving, double starting, double bytes, double full);

/// Gathers in passes are joined while moving takes no longer than starting.
inline bool moves_as_starts(double moving, double starting) { return moving <= starting; }
/// And of these so many are left, about, no fewer than `full` ones of most_bucket_bytes.
inline double filled_gathers(double moving, double starting, double full) {
  return std::max({1.0, moving / starting, full});
}

/// Times what two neighbours hold at most, gathers of weights may hold that are ahead with the one in use, an eighth of the pass's weights and most_bucket_bytes
/// at most, but one is ahead in any case: llama2-7b sharded over 128 A100, a sample each, took 5.05 s with one ahead, and takes 4.31 s.
constexpr int weights_held = 2, shares_of_weights = 8;

struct CommFusion {
  BucketLimit all_reduce = {};
  BucketLimit all_gather = {};
  BucketLimit reduce_scatter = {};
  std::map<std::string, int> parameters = {};  // by name: the number of its bucket, 0: none

  bool is_automatic() const { return *this == CommFusion(); }
  auto operator<=>(const CommFusion&) const = default;
};

/// `size:16`
std::string to_text(const BucketLimit& limit);
/// `auto`, or where kinds differ `all_reduce=size:16;all_gather=none;reduce_scatter=auto`. Without parameters.
std::string to_text(const CommFusion& fusion);

/// Throws: Error that says what would be right.
BucketLimit parse_bucket_limit(std::string_view text);
/// What `to_text` gives; kinds that are not named are auto. `index` alone is meant for all_reduce.
CommFusion parse_comm_fusion(std::string_view text);
/// `limit` for the collective called `kind`. Throws: Error if there is no such kind, or it has no such mode.
void set_limit(CommFusion& fusion, std::string_view kind, BucketLimit limit);

/// `fusion` with the numbers of parameters; a name is a parameter's, or a module's and means all of its parameters. A
/// longer name wins. Throws: Error with near names if there is neither.
CommFusion with_parameters(CommFusion fusion, const Graph& graph, const std::map<std::string, int>& numbers);

/// The buckets of the old `all_reduce_fusion_config`. Throws: Error unless `indices` increase from 0 on.
BucketLimit index_limit(std::vector<std::int64_t> indices);

}  // namespace shardwright
