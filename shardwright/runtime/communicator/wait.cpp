#include "shardwright/runtime/communicator/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace shardwright {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

void Awaited::wait_while(std::uint32_t old) {
  for (int i = 0; i < 100; ++i) {
    if (load() != old) return;
    __builtin_ia32_pause();
  }
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1)) {
    if (load() != old) return;
    sched_yield();
  }
  // The kernel looks at the value again after `sleepers_` is raised, so no change goes unnoticed.
  sleepers_.fetch_add(1);
  while (load() == old) syscall(SYS_futex, &value_, FUTEX_WAIT, old, nullptr, nullptr, 0);
  sleepers_.fetch_sub(1);
}

void Awaited::wake_sleepers() { syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace shardwright
