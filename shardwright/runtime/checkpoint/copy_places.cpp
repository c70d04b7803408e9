#include "shardwright/runtime/checkpoint/copy_places.h"

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"

namespace shardwright {
namespace {

/// Hands out parts in turn, each to whoever has least so far.
class CopyPlaces {
 public:
  CopyPlaces(const std::vector<int>& hosts, int copies)
      : hosts_(hosts), written_(hosts.size()), sent_(hosts.size()) {
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      ranks_.resize(std::max(ranks_.size(), at(hosts[r]) + 1));
      ranks_[at(hosts[r])].push_back(static_cast<int>(r));
    }
    kept_.resize(ranks_.size());
    copies_ = std::min(at(copies), ranks_.size());
  }

  std::vector<CopyPlace> of(const HeldPart& held) {
    std::vector<CopyPlace> out = holding(held);
    const std::size_t sender = best_sender(out);
    std::swap(out.front(), out[sender]);
    const CopyPlace first = out.front();
    std::sort(out.begin() + 1, out.end());
    for (std::size_t h = 1; out.size() < copies_; ++h) {
      const std::size_t host = (at(first.host) + h) % ranks_.size();
      if (std::ranges::find(out, static_cast<int>(host), &CopyPlace::host) != out.end()) continue;
      out.push_back({static_cast<int>(host), least(ranks_[host], written_), first.rank});
      sent_[at(first.rank)] += held.bytes;
    }
    for (const CopyPlace& place : out) {
      written_[at(place.rank)] += held.bytes;
      kept_[at(place.host)] += held.bytes;
    }
    return out;
  }

 private:
  static int least(const std::vector<int>& ranks, const std::vector<std::int64_t>& bytes) {
    return *std::ranges::min_element(ranks, {}, [&](int r) { return bytes[at(r)]; });
  }

  /// Hosts of ranks that hold it, as many as are needed: those that keep least.
  std::vector<CopyPlace> holding(const HeldPart& held) const {
    std::map<int, std::vector<int>> by_host;
    for (const int r : held.ranks) by_host[hosts_[at(r)]].push_back(r);
    std::vector<CopyPlace> out;
    for (const auto& [host, ranks] : by_host) {
      const int rank = least(ranks, written_);
      out.push_back({host, rank, rank});
    }
    std::ranges::stable_sort(out, {}, [&](const CopyPlace& p) { return kept_[at(p.host)]; });
    out.resize(std::min(out.size(), copies_));
    return out;
  }

  std::size_t best_sender(const std::vector<CopyPlace>& out) const {
    return at(std::ranges::min_element(out, {}, [&](const CopyPlace& p) { return sent_[at(p.rank)]; }) -
              out.begin());
  }

  const std::vector<int>& hosts_;
  std::size_t copies_ = 1;
  std::vector<std::vector<int>> ranks_;              // by host
  std::vector<std::int64_t> written_, sent_, kept_;  // by rank, by rank, by host
};

}  // namespace

std::vector<CopiedShard> copied_shards(const Pipeline& pipeline, const KeptValues& kept,
                                       const std::vector<int>& hosts, int copies) {
  CopyPlaces places(hosts, copies);
  std::map<std::vector<CopyPlace>, CopiedShard> shards;  // in one order on all ranks
  for (HeldPart& held : held_parts(pipeline, kept)) {
    std::vector<CopyPlace> lies = places.of(held);
    CopiedShard& shard = shards[lies];
    shard.places = std::move(lies);
    shard.bytes += held.bytes;
    shard.parts.push_back(std::move(held.part));
  }
  std::vector<CopiedShard> out;
  for (auto& [lies, shard] : shards) out.push_back(std::move(shard));
  return out;
}

CopyPrice price_of(const std::vector<CopiedShard>& shards, double bytes_per_second) {
  CopyPrice out;
  std::map<int, std::int64_t> kept, sent, of_rank;  // by host, but for the last
  for (const CopiedShard& shard : shards) {
    out.state_bytes += shard.bytes;
    out.copies = static_cast<int>(shard.places.size());
    for (const CopyPlace& place : shard.places) {
      kept[place.host] += shard.bytes;
      if (place.from == place.rank) continue;
      sent[shard.places.front().host] += shard.bytes;
      of_rank[place.from] += shard.bytes;
    }
  }
  for (const auto& [host, bytes] : kept) out.host_bytes = std::max(out.host_bytes, bytes);
  for (const auto& [host, bytes] : sent) out.sent_bytes = std::max(out.sent_bytes, bytes);
  for (const auto& [rank, bytes] : of_rank)
    out.seconds = std::max(out.seconds, static_cast<double>(bytes) / bytes_per_second);
  return out;
}

}  // namespace shardwright
