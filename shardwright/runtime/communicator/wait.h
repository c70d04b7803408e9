// Waiting for another thread: spin, then yield, then sleep.
//
// With more ranks than cores a spinning thread costs a scheduler slice (4 ms) per meeting, and a sleeping one
// 70 us to wake; yielding after a few pauses is best in all cases (0.5 / 5 / 16 us for 2 / 4 / 8 ranks on two
// cores). Sleep comes only after a millisecond, so that idle ranks cost nothing.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardwright {

/// Returns once `word` is no longer `old`. Who changes `word` calls its notify_all.
inline void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  const auto changed = [&] { return word.load(std::memory_order_acquire) != old; };
  for (int i = 0; i < 100; ++i) {
    if (changed()) return;
    __builtin_ia32_pause();
  }
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1)) {
    if (changed()) return;
    sched_yield();
  }
  while (!changed()) word.wait(old, std::memory_order_acquire);
}

}  // namespace shardwright
