// The CPU behind a fence: its memory can be read and written only while it is at work itself. Who reaches over the fence
// gets SIGSEGV there and then, so what runs on it looks at no device memory, as if that were on another device.
//
// Calls come from one thread, that of the rank (InternalError if they do not), and each opens the fence for this
// backend's memory alone. Copies to the host and from it are done when they are waited for, no sooner: what a kernel reads
// that no event has made ready is an InternalError.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/forwarding_backend.h"

namespace shardwright::testing {

class FencedBackend final : public ForwardingBackend {
 public:
  FencedBackend();

  bool is_host() const override { return false; }
  void enter_thread() override;
  std::int64_t resident_bytes(std::span<const std::byte> memory) const override;
  void wait() override;
  Memory allocate_host(std::int64_t bytes) override { return ForwardingBackend::allocate(bytes); }
  /// As late as it may: when somebody waits for it. Until then nobody finds it done.
  void copy_later(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) override;
  DeviceEvent record(DeviceStream stream) override;
  void wait_for(DeviceEvent event, DeviceStream stream) override;
  void wait_for(DeviceEvent event) override;
  bool is_past(DeviceEvent event) override;
  Memory allocate(std::int64_t bytes) override;
  void write(std::byte* to, std::span<const std::byte> host) override;
  void read(std::span<std::byte> host, const std::byte* from) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void fill(const TensorView& to, double value) override;
  using Backend::prepare;
  PreparedKernel prepare(std::span<const FusedCall> calls) override;

 private:
  class Gate;
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
    std::int64_t behind = 0;  // so many of the other stream
  };
  /// A stream of copies.
  struct Lane {
    std::vector<Copy> copies;  // of which the first ones may be done
    std::size_t first = 0;     // that is not
    std::span<const Copy> waiting() const { return std::span(copies).subspan(first); }
    std::int64_t asked = 0, done = 0;
    std::int64_t behind = 0;  // what is asked for from now on
  };
  Lane& lane(DeviceStream way) { return lanes_[way == DeviceStream::evict]; }
  void do_copies(DeviceStream way, std::int64_t until);
  /// Throws: InternalError if a copy that nobody has waited for writes there, or reads what is written.
  void check_ready(std::span<const FusedCall> calls) const;
  void check_read(const std::byte* begin, std::size_t bytes, std::string_view who) const;
  void check_written(const std::byte* begin, std::size_t bytes, std::string_view who) const;
  void protect(int what);
  void check_thread() const;
  static void release(std::byte* data, std::int64_t bytes);

  std::array<Lane, 2> lanes_;
  std::thread::id driver_;  // nobody's until it has entered
  std::mutex mutex_;        // guards the fields: memory may go while the rank's thread waits
  std::map<std::byte*, std::size_t> fields_;  // by begin
};

DeviceKind fenced_devices();
/// That have no kernels for these operators.
DeviceKind fenced_devices_without(std::set<std::string> operators);

}  // namespace shardwright::testing
