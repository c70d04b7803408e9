// Documents of all lengths in batches of few: each is a sample, which is filled up to the shortest length that it fits into, and a batch
// holds samples of one length. Nobody is asked for what fills up.
//
// In each epoch every document comes once, in another order: samples of a length are drawn in any order, cut into batches, of which the
// last is filled up with empty samples, and then all batches come in any order. Batch i of an epoch is a function of the seed, the epoch and i.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/marked_tokens.h"

namespace shardwright {

struct LengthBucketOptions {
  std::vector<std::int64_t> lengths;  // ascending
  std::int64_t batch = 1;             // samples
  std::uint64_t seed = 0;
};

class LengthBuckets {
 public:
  /// Throws: Error if no document has a token that can be asked for.
  LengthBuckets(MarkedTokens tokens, LengthBucketOptions options);

  std::int64_t batches_per_epoch() const;
  /// Columns `input` and `label`, i32 [batch, length], of a step that counts through all epochs.
  std::map<std::string, Tensor> at_step(std::int64_t step) const;

  /// Samples by length.
  std::vector<std::int64_t> samples() const;
  /// Documents that are longer than the longest, whose rest nobody sees.
  std::int64_t cut() const { return cut_; }

 private:
  /// A document but for its last token, which is only asked for.
  struct Sample {
    std::size_t first = 0;
    std::int64_t length = 0;
  };
  /// Of one length some of its samples, in the order of an epoch.
  struct Planned {
    std::size_t bucket = 0;
    std::vector<std::size_t> samples;
  };
  struct Epoch;
  std::shared_ptr<const std::vector<Planned>> epoch(std::int64_t number) const;

  MarkedTokens tokens_;
  LengthBucketOptions options_;
  std::vector<std::vector<Sample>> samples_;  // by bucket
  std::int64_t cut_ = 0;
  std::shared_ptr<Epoch> made_;  // the last
};

}  // namespace shardwright
