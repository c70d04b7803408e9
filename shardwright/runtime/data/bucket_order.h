// In which order samples of all lengths come, in batches of few: each goes into the shortest length that it fits into, and a batch holds
// samples of one length.
//
// In each epoch every sample comes once: those of a length are drawn in any order, cut into batches, of which the last has fewer, and then
// all batches come in any order. Batch i of an epoch is a function of the seed, the epoch and i.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardwright {

struct LengthBucketOptions {
  std::vector<std::int64_t> lengths;  // ascending
  std::int64_t batch = 1;             // samples
  std::uint64_t seed = 0;
};

/// As they are said: `64,128`.
std::string lengths_text(const LengthBucketOptions& options);

class BucketOrder {
 public:
  /// By sample its length. Throws: Error unless lengths ascend from 1 on, or if a sample is longer than the longest.
  BucketOrder(const std::vector<std::int64_t>& samples, LengthBucketOptions options);

  struct Planned {
    std::size_t bucket = 0;            // which of the lengths
    std::vector<std::size_t> samples;  // at most as many as a batch holds
  };
  /// Of a step that counts through all epochs.
  Planned at_step(std::int64_t step) const;
  std::int64_t batches_per_epoch() const;
  /// By length, how many samples it has.
  std::vector<std::int64_t> samples() const;
  const LengthBucketOptions& options() const { return options_; }

 private:
  struct Epoch;
  std::shared_ptr<const std::vector<Planned>> epoch(std::int64_t number) const;

  LengthBucketOptions options_;
  std::vector<std::vector<std::size_t>> samples_;  // by bucket
  std::shared_ptr<Epoch> made_;                    // the last
};

}  // namespace shardwright
