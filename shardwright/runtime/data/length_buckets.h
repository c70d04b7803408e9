// Documents of all lengths in batches of few (bucket_order.h): each is a sample, which is filled up to its batch's length. Nobody is asked
// for what fills up. The last batch of a length is filled up with empty samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/bucket_order.h"
#include "shardwright/runtime/data/marked_tokens.h"

namespace shardwright {

class LengthBuckets {
 public:
  /// Throws: Error if no document has a token that can be asked for.
  LengthBuckets(MarkedTokens tokens, const LengthBucketOptions& options);

  std::int64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  /// Columns `input` and `label`, i32 [batch, length], of a step that counts through all epochs.
  std::map<std::string, Tensor> at_step(std::int64_t step) const;

  /// Samples by length.
  std::vector<std::int64_t> samples() const { return order_.samples(); }
  /// Documents that are longer than the longest, whose rest nobody sees.
  std::int64_t cut() const { return cut_; }
  const LengthBucketOptions& options() const { return order_.options(); }

 private:
  /// A document but for its last token, which is only asked for.
  struct Sample {
    std::size_t first = 0;
    std::int64_t length = 0;
  };
  std::vector<Sample> samples_of(std::int64_t longest);
  static std::vector<std::int64_t> lengths_of(const std::vector<Sample>& samples);

  MarkedTokens tokens_;
  std::int64_t cut_ = 0;
  std::vector<Sample> samples_;
  BucketOrder order_;
};

}  // namespace shardwright
