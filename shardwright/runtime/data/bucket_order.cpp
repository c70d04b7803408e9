#include "shardwright/runtime/data/bucket_order.h"

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

void check(const LengthBucketOptions& options) {
  for (std::size_t i = 0; i < options.lengths.size(); ++i)
    if (options.lengths[i] < 1 || (i > 0 && options.lengths[i] <= options.lengths[i - 1]))
      throw error("lengths {}: should ascend, from 1 on", fmt::join(options.lengths, ", "));
  if (options.lengths.empty()) throw error("lengths: there is none");
  if (options.batch < 1) throw error("batch {}: should be at least 1", options.batch);
}

}  // namespace

std::string lengths_text(const LengthBucketOptions& options) {
  return fmt::format("{}", fmt::join(options.lengths, ","));
}

struct BucketOrder::Epoch {
  std::mutex mutex;  // of what follows
  std::int64_t number = -1;
  std::shared_ptr<const std::vector<Planned>> batches;
};

BucketOrder::BucketOrder(const std::vector<std::int64_t>& samples, LengthBucketOptions options)
    : options_(std::move(options)), samples_(options_.lengths.size()), made_(std::make_shared<Epoch>()) {
  check(options_);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto bucket = std::ranges::lower_bound(options_.lengths, samples[i]) - options_.lengths.begin();
    if (bucket == std::ssize(options_.lengths))
      throw error("sample {} has a length of {}, but the longest is {}", i, samples[i],
                  options_.lengths.back());
    samples_[static_cast<std::size_t>(bucket)].push_back(i);
  }
}

std::int64_t BucketOrder::batches_per_epoch() const {
  std::int64_t out = 0;
  for (const auto& samples : samples_) out += (std::ssize(samples) + options_.batch - 1) / options_.batch;
  return out;
}

std::vector<std::int64_t> BucketOrder::samples() const {
  std::vector<std::int64_t> out;
  for (const auto& samples : samples_) out.push_back(std::ssize(samples));
  return out;
}

std::shared_ptr<const std::vector<BucketOrder::Planned>> BucketOrder::epoch(std::int64_t number) const {
  const std::lock_guard lock(made_->mutex);
  if (made_->number == number) return made_->batches;
  std::vector<Planned> out;
  for (std::size_t b = 0; b < samples_.size(); ++b) {
    std::vector<std::size_t> order = samples_[b];
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

BucketOrder::Planned BucketOrder::at_step(std::int64_t step) const {
  const std::int64_t batches = batches_per_epoch();
  return (*epoch(step / batches))[static_cast<std::size_t>(step % batches)];
}

}  // namespace shardwright
