// Orders of rows: any order of all, in O(1) and without memory, and what leaves a buffer.
#include <bit>
#include <memory>
#include <mutex>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"
#include "shardwright/runtime/data/rows.h"

namespace shardwright {
namespace {

/// A place in which the next row lies until another one takes it.
template <class T>
class ShuffleBuffer {
 public:
  ShuffleBuffer(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
      : size_(static_cast<std::size_t>(size)), random_(seed, fmt::format("buffer of epoch {}", epoch)) {}

  /// What leaves for it, once the buffer is full.
  std::optional<T> put(T row) {
    if (held_.size() < size_) {
      held_.push_back(std::move(row));
      return std::nullopt;
    }
    return std::exchange(held_[place()], std::move(row));
  }
  /// What is left, in any order.
  std::optional<T> take() {
    if (held_.empty()) return std::nullopt;
    std::swap(held_[place()], held_.back());
    T row = std::move(held_.back());
    held_.pop_back();
    return row;
  }

 private:
  std::size_t place() {
    return static_cast<std::size_t>(random_.below(drawn_++, static_cast<std::int64_t>(held_.size())));
  }

  std::size_t size_;
  RandomStream random_;
  std::uint64_t drawn_ = 0;
  std::vector<T> held_;
};

/// The order of one epoch at a time; any thread may ask for it.
class BufferOrder {
 public:
  BufferOrder(std::int64_t buffer, std::uint64_t seed) : buffer_(buffer), seed_(seed) {}

  std::int64_t at(std::int64_t epoch, std::int64_t index, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    if (epoch_ != epoch) order_ = made(epoch, count);
    epoch_ = epoch;
    return order_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<std::int64_t> made(std::int64_t epoch, std::int64_t count) const {
    ShuffleBuffer<std::int64_t> buffer(buffer_, seed_, epoch);
    std::vector<std::int64_t> order;
    order.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      if (const auto left = buffer.put(i)) order.push_back(*left);
    while (const auto left = buffer.take()) order.push_back(*left);
    return order;
  }

  std::int64_t buffer_;
  std::uint64_t seed_;
  std::mutex mutex_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

/// A stream through a buffer. Who asks for an earlier row has it read again from its start.
class StreamOrder {
 public:
  StreamOrder(std::int64_t buffer, std::uint64_t seed) : buffer_size_(buffer), seed_(seed) {}

  std::optional<DataRow> at(const DataRows& rows, std::int64_t epoch, std::int64_t index) {
    const std::lock_guard lock(mutex_);
    if (epoch != epoch_ || index < next_) {
      buffer_.emplace(buffer_size_, seed_, epoch);
      epoch_ = epoch;
      next_ = read_ = 0;
    }
    std::optional<DataRow> row;
    for (; next_ <= index; ++next_) row = next(rows);
    return row;
  }

 private:
  std::optional<DataRow> next(const DataRows& rows) {
    while (std::optional<DataRow> row = rows.row(epoch_, read_)) {
      ++read_;
      if (std::optional<DataRow> left = buffer_->put(std::move(*row))) return left;
    }
    return buffer_->take();
  }

  std::int64_t buffer_size_;
  std::uint64_t seed_;
  std::mutex mutex_;
  std::optional<ShuffleBuffer<DataRow>> buffer_;
  std::int64_t epoch_ = -1, next_ = 0, read_ = 0;
};

}  // namespace

std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  require(0 <= index && index < count, "index {} of {}", index, count);
  constexpr unsigned rounds = 6;
  const auto half_bits = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(count - 1)) + 1) / 2;
  const std::uint64_t half_mask = (std::uint64_t{1} << half_bits) - 1;
  const RandomStream random(seed, fmt::format("order of epoch {}", epoch));
  auto x = static_cast<std::uint64_t>(index);
  do {
    for (unsigned round = 0; round < rounds; ++round) {
      const std::uint64_t left = x >> half_bits;
      const std::uint64_t right = x & half_mask;
      x = right << half_bits | (left ^ (random.bits(right * rounds + round) & half_mask));
    }
  } while (x >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(x);
}

DataRows shuffled_rows(DataRows rows, std::uint64_t seed) {
  if (rows.is_stream || rows.is_endless)
    throw error(
        "dataset: a stream without a known end is shuffled through a buffer; say how many rows it has");
  DataRows out = rows;
  out.row = [rows = std::move(rows), seed](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    const std::int64_t count = rows.count();
    if (index >= count) return std::nullopt;
    return rows.row(epoch, shuffled(index, count, seed, epoch));
  };
  return out;
}

DataRows buffer_shuffled_rows(DataRows rows, std::uint64_t seed, std::int64_t buffer) {
  if (buffer < 2) throw error("dataset: a buffer of {} rows shuffles nothing; must be 2 or more", buffer);
  DataRows out = rows;
  if (rows.is_stream || rows.is_endless) {
    out.row = [rows = std::move(rows), order = std::make_shared<StreamOrder>(buffer, seed)](
                  std::int64_t epoch, std::int64_t index) { return order->at(rows, epoch, index); };
    return out;
  }
  out.row = [rows = std::move(rows), order = std::make_shared<BufferOrder>(buffer, seed)](
                std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    const std::int64_t count = rows.count();
    if (index >= count) return std::nullopt;
    return rows.row(epoch, order->at(epoch, index, count));
  };
  return out;
}

}  // namespace shardwright
