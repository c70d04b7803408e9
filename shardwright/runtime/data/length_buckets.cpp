#include "shardwright/runtime/data/length_buckets.h"

#include <algorithm>

#include "shardwright/base/error.h"

namespace shardwright {

std::vector<LengthBuckets::Sample> LengthBuckets::samples_of(std::int64_t longest) {
  std::vector<Sample> out;
  const std::size_t count = tokens_.ids.size();
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count && !tokens_.marks[end].begins;) ++end;
    Sample sample{first, static_cast<std::int64_t>(end - first) - 1};
    if (sample.length > longest) ++cut_;
    sample.length = std::min(sample.length, longest);
    const auto asked = tokens_.marks.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    if (std::any_of(asked, asked + sample.length, [](const TokenMark& mark) { return mark.is_asked; }))
      out.push_back(sample);
  }
  if (out.empty()) throw error("there is no document of two tokens, of which the second is asked for");
  return out;
}

std::vector<std::int64_t> LengthBuckets::lengths_of(const std::vector<Sample>& samples) {
  std::vector<std::int64_t> out;
  for (const Sample& sample : samples) out.push_back(sample.length);
  return out;
}

LengthBuckets::LengthBuckets(MarkedTokens tokens, const LengthBucketOptions& options)
    : tokens_(std::move(tokens)),
      samples_(samples_of(options.lengths.empty() ? 0 : options.lengths.back())),
      order_(lengths_of(samples_), options) {}

std::map<std::string, Tensor> LengthBuckets::at_step(std::int64_t step) const {
  const BucketOrder::Planned batch = order_.at_step(step);
  const std::int64_t length = options().lengths[batch.bucket];
  Tensor input({DType::i32, {options().batch, length}}), label({DType::i32, {options().batch, length}});
  std::ranges::fill(input.as<std::int32_t>(), 0);
  std::ranges::fill(label.as<std::int32_t>(), static_cast<std::int32_t>(not_asked));
  for (std::size_t row = 0; row < batch.samples.size(); ++row) {
    const Sample& sample = samples_[batch.samples[row]];
    const std::size_t to = row * static_cast<std::size_t>(length);
    for (std::size_t i = 0; i < static_cast<std::size_t>(sample.length); ++i) {
      input.as<std::int32_t>()[to + i] = tokens_.ids[sample.first + i];
      if (tokens_.marks[sample.first + i + 1].is_asked)
        label.as<std::int32_t>()[to + i] = tokens_.ids[sample.first + i + 1];
    }
  }
  std::map<std::string, Tensor> out;
  out.emplace("input", std::move(input));
  out.emplace("label", std::move(label));
  return out;
}

}  // namespace shardwright
