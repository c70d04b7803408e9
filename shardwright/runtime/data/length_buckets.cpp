#include "shardwright/runtime/data/length_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"

namespace shardwright {
namespace {

template <class T>
void draw_order(std::vector<T>& of, const RandomStream& random) {
  for (std::size_t i = of.size(); i > 1; --i)
    std::swap(of[i - 1], of[static_cast<std::size_t>(random.below(i, static_cast<std::int64_t>(i)))]);
}

}  // namespace

struct LengthBuckets::Epoch {
  std::mutex mutex;  // of what follows
  std::int64_t number = -1;
  std::shared_ptr<const std::vector<Planned>> batches;
};

LengthBuckets::LengthBuckets(MarkedTokens tokens, LengthBucketOptions options)
    : tokens_(std::move(tokens)),
      options_(std::move(options)),
      samples_(options_.lengths.size()),
      made_(std::make_shared<Epoch>()) {
  const std::size_t count = tokens_.ids.size();
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count && !tokens_.marks[end].begins;) ++end;
    Sample sample{first, static_cast<std::int64_t>(end - first) - 1};
    if (sample.length > options_.lengths.back()) ++cut_;
    sample.length = std::min(sample.length, options_.lengths.back());
    const auto asked = tokens_.marks.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    if (std::none_of(asked, asked + sample.length, [](const TokenMark& mark) { return mark.is_asked; }))
      continue;
    const auto bucket = std::ranges::lower_bound(options_.lengths, sample.length) - options_.lengths.begin();
    samples_[static_cast<std::size_t>(bucket)].push_back(sample);
  }
  if (batches_per_epoch() == 0)
    throw error("there is no document of two tokens, of which the second is asked for");
}

std::int64_t LengthBuckets::batches_per_epoch() const {
  std::int64_t out = 0;
  for (const auto& samples : samples_) out += (std::ssize(samples) + options_.batch - 1) / options_.batch;
  return out;
}

std::vector<std::int64_t> LengthBuckets::samples() const {
  std::vector<std::int64_t> out;
  for (const auto& samples : samples_) out.push_back(std::ssize(samples));
  return out;
}

std::shared_ptr<const std::vector<LengthBuckets::Planned>> LengthBuckets::epoch(std::int64_t number) const {
  const std::lock_guard lock(made_->mutex);
  if (made_->number == number) return made_->batches;
  std::vector<Planned> out;
  for (std::size_t b = 0; b < samples_.size(); ++b) {
    std::vector<std::size_t> order(samples_[b].size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    draw_order(order, {options_.seed, fmt::format("samples of {} in epoch {}", options_.lengths[b], number)});
    const auto each = static_cast<std::size_t>(options_.batch);
    for (std::size_t i = 0; i < order.size(); i += each) {
      const auto from = order.begin() + static_cast<std::ptrdiff_t>(i);
      const auto taken = static_cast<std::ptrdiff_t>(std::min(each, order.size() - i));
      out.push_back({b, {from, from + taken}});
    }
  }
  draw_order(out, {options_.seed, fmt::format("batches of epoch {}", number)});
  made_->number = number;
  made_->batches = std::make_shared<const std::vector<Planned>>(std::move(out));
  return made_->batches;
}

std::map<std::string, Tensor> LengthBuckets::at_step(std::int64_t step) const {
  const std::int64_t batches = batches_per_epoch();
  const auto order = epoch(step / batches);
  const Planned& batch = (*order)[static_cast<std::size_t>(step % batches)];
  const std::int64_t length = options_.lengths[batch.bucket];
  Tensor input({DType::i32, {options_.batch, length}}), label({DType::i32, {options_.batch, length}});
  std::ranges::fill(input.as<std::int32_t>(), 0);
  std::ranges::fill(label.as<std::int32_t>(), static_cast<std::int32_t>(not_asked));
  for (std::size_t row = 0; row < batch.samples.size(); ++row) {
    const Sample& sample = samples_[batch.bucket][batch.samples[row]];
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
