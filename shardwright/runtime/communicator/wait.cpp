#include "shardwright/runtime/communicator/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace shardwright {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

bool Awaited::wait_while(std::uint32_t old, std::chrono::nanoseconds most) {
  for (int i = 0; i < 100; ++i) {
    if (load() != old) return true;
    __builtin_ia32_pause();
  }
  const auto start = std::chrono::steady_clock::now();
  std::chrono::nanoseconds gone{0};
  while (gone < std::min<std::chrono::nanoseconds>(most, std::chrono::milliseconds(1))) {
    if (load() != old) return true;
    sched_yield();
    gone = std::chrono::steady_clock::now() - start;
  }
  // The kernel looks at the value again after `sleepers_` is raised, so no change goes unnoticed.
  sleepers_.fetch_add(1);
  while (load() == old && gone < most) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(most - gone).count();
    const timespec time{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    syscall(SYS_futex, &value_, FUTEX_WAIT, old, &time, nullptr, 0);
    gone = std::chrono::steady_clock::now() - start;
  }
  sleepers_.fetch_sub(1);
  return load() != old;
}

void Awaited::wake_sleepers() { syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace shardwright
