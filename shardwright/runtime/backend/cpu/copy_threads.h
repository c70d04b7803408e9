// The copies of a CPU device to its host and back: there they are copies within memory, by a thread for each way, so that
// they run beside the device as copies of accelerators do. Threads begin with the first copy.
//
// SHARDWRIGHT_HOST_BANDWIDTH slows them down to a link of so many bytes per second.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "shardwright/runtime/backend/backend.h"

namespace shardwright::cpu {

class CopyThreads {
 public:
  CopyThreads();
  /// Does what it has been asked for.
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  void add(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes);
  /// How many copies have been asked for on a way.
  std::int64_t asked(DeviceStream way) const { return lane(way).asked; }
  /// Until as many are done.
  void wait_for(DeviceEvent event);
  bool is_past(DeviceEvent event);
  /// Until all are done.
  void wait();

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  struct Lane {
    std::thread thread;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Copy> copies;  // guarded, as what follows
    std::int64_t done = 0;
    bool ends = false;
    std::int64_t asked = 0;  // of the rank's thread alone
  };

  Lane& lane(DeviceStream way) { return lanes_[way == DeviceStream::evict]; }
  const Lane& lane(DeviceStream way) const { return lanes_[way == DeviceStream::evict]; }
  void run(Lane& lane) const;
  void copy(const Copy& copy) const;

  std::optional<double> bytes_per_second_;
  std::array<Lane, 2> lanes_;
};

}  // namespace shardwright::cpu
