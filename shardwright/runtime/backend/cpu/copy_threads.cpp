#include "shardwright/runtime/backend/cpu/copy_threads.h"

#include <chrono>
#include <cstring>

#include "shardwright/cost/cluster.h"

namespace shardwright::cpu {

CopyThreads::CopyThreads() : bytes_per_second_(throttled_host_bandwidth()) {}

CopyThreads::~CopyThreads() {
  for (Lane& lane : lanes_) {
    if (!lane.thread.joinable()) continue;
    {
      const std::lock_guard lock(lane.mutex);
      lane.ends = true;
    }
    lane.changed.notify_all();
    lane.thread.join();
  }
}

void CopyThreads::add(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) {
  Lane& to_do = lane(way);
  if (!to_do.thread.joinable()) to_do.thread = std::thread([this, &to_do] { run(to_do); });
  ++to_do.asked;
  {
    const std::lock_guard lock(to_do.mutex);
    to_do.copies.push_back({to, from, bytes});
  }
  to_do.changed.notify_all();
}

void CopyThreads::wait_for(DeviceEvent event) {
  Lane& on = lane(event.stream);
  std::unique_lock lock(on.mutex);
  on.changed.wait(lock, [&] { return on.done >= event.number; });
}

bool CopyThreads::is_past(DeviceEvent event) {
  Lane& on = lane(event.stream);
  const std::lock_guard lock(on.mutex);
  return on.done >= event.number;
}

void CopyThreads::wait() {
  for (const DeviceStream way : {DeviceStream::fetch, DeviceStream::evict})
    if (asked(way) > 0) wait_for({way, asked(way)});
}

void CopyThreads::run(Lane& lane) const {
  std::unique_lock lock(lane.mutex);
  for (;;) {
    lane.changed.wait(lock, [&] { return lane.ends || !lane.copies.empty(); });
    if (lane.copies.empty()) return;
    const Copy next = lane.copies.front();
    lane.copies.pop_front();
    lock.unlock();
    copy(next);
    lock.lock();
    ++lane.done;
    lane.changed.notify_all();
  }
}

void CopyThreads::copy(const Copy& copy) const {
  const auto begin = std::chrono::steady_clock::now();
  if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
  if (!bytes_per_second_) return;
  const std::chrono::duration<double> whole(static_cast<double>(copy.bytes) / *bytes_per_second_);
  std::this_thread::sleep_until(begin +
                                std::chrono::duration_cast<std::chrono::steady_clock::duration>(whole));
}

}  // namespace shardwright::cpu
