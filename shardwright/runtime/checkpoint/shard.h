// What the ranks of a pipeline write of a checkpoint, and the file of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/file.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/runtime/checkpoint/manifest.h"
#include "shardwright/runtime/kept.h"

namespace shardwright {

/// A state that is another one's, or the step's, to say: it is not saved, and set anew.
bool follows_from_step(std::string_view name);

/// A part of what a checkpoint holds, and the ranks that have it.
struct HeldPart {
  NamedBox part;
  std::vector<int> ranks;  // ascending
  std::int64_t bytes = 0;
};
/// Of all parameters and states but those that follow from the step, each element once; the values that are largest first, so
/// that what is handed out in this order comes out even.
std::vector<HeldPart> held_parts(const Pipeline& pipeline, const KeptValues& kept);

/// By rank: the parts that it writes, of all parameters and states but those that follow from the step. Each element is
/// in one; of the ranks that hold a part, the one writes it that has least to write so far.
std::vector<std::vector<NamedBox>> shares_of(const Pipeline& pipeline, const KeptValues& kept);
/// By rank: the number of its shard; -1 where it has none because others hold all that it has.
std::vector<int> shard_numbers(const std::vector<std::vector<NamedBox>>& shares);
/// The tensors of a manifest whose shards hold these shares, by shard or by rank; those that have no part in any are left out.
std::vector<SavedTensor> saved_tensors(const Pipeline& pipeline, const KeptValues& kept,
                                       const std::vector<std::vector<NamedBox>>& shares);

/// A file that is written with the checksums of its blocks, while the disk is at work.
class SummedFile {
 public:
  SummedFile(const std::string& path, std::int64_t block_bytes);
  void write(std::span<const std::byte> bytes);
  std::int64_t bytes() const { return bytes_; }
  /// Synced, and under its name. Throws: Error of kind io, as all do.
  std::vector<std::uint64_t> keep();

 private:
  void write_block(std::span<const std::byte> block);

  NewFile file_;
  std::size_t block_bytes_;
  std::int64_t bytes_ = 0;
  std::vector<std::byte> begun_;  // block
  std::vector<std::uint64_t> sums_;
};

/// Of copies of a state each host has some shards (state_copies.h): in its manifest others have no checksums.
bool is_here(const Shard& shard);

/// How a shard's file begins, and where its parts stand.
struct ShardForm {
  /// Of parts that have these types, in the order of `share`.
  ShardForm(const KeptValues& kept, const std::vector<NamedBox>& share);

  std::string head;
  std::vector<std::size_t> places;  // by part
  std::size_t bytes = 0;            // of all
};

/// A shard's file in memory.
class ShardImage {
 public:
  /// Room for parts that have these types, in the order of `share`.
  ShardImage(const KeptValues& kept, const std::vector<NamedBox>& share);

  /// Where part `i` of the share stands.
  std::byte* part(std::size_t i) { return bytes_.data() + places_[i]; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// Writes and syncs it, and returns the checksums of its blocks. Throws: Error of kind io.
  std::vector<std::uint64_t> write(const std::string& path, std::int64_t block_bytes) const;

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::size_t> places_;
};

}  // namespace shardwright
