// Waiting for another thread or process: spin, then yield, then sleep.
//
// With more ranks than cores a spinning thread costs a scheduler slice (4 ms) per meeting, and a sleeping one
// 70 us to wake; yielding after a few pauses is best in all cases (0.5 / 5 / 16 us for 2 / 4 / 8 ranks on two
// cores). Sleep comes only after a millisecond, so that idle ranks cost nothing. std::atomic's own wait does
// not work between processes, so sleepers use the kernel's futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardwright {

/// A number that others wait for. It may lie in memory that several processes share.
class Awaited {
 public:
  explicit Awaited(std::uint32_t value = 0) : value_(value) {}

  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  void add(std::uint32_t n) {
    value_.fetch_add(n);
    wake();
  }
  void set_bits(std::uint32_t bits) {
    value_.fetch_or(bits);
    wake();
  }

  /// Returns once the value is no longer `old`.
  void wait_while(std::uint32_t old) {
    while (!wait_while(old, std::chrono::hours(1))) {
    }
  }
  /// Likewise, or after `most`. Whether the value is another one.
  bool wait_while(std::uint32_t old, std::chrono::nanoseconds most);

 private:
  void wake() {
    if (sleepers_.load() > 0) wake_sleepers();
  }
  void wake_sleepers();

  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace shardwright
