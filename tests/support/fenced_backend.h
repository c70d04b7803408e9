// The CPU behind a fence: its memory can be read and written only while it is at work itself. Who reaches over the fence
// gets SIGSEGV there and then, so what runs on it looks at no device memory, as if that were on another device.
//
// Calls come from one thread, that of the rank (InternalError if they do not), and each opens the fence for this
// backend's memory alone.
#pragma once

#include <map>
#include <mutex>
#include <thread>

#include "tests/support/forwarding_backend.h"

namespace shardwright::testing {

class FencedBackend final : public ForwardingBackend {
 public:
  FencedBackend();

  bool is_host() const override { return false; }
  void enter_thread() override;
  std::int64_t resident_bytes(std::span<const std::byte> memory) const override;
  void wait() override;
  Memory allocate(std::int64_t bytes) override;
  void write(std::byte* to, std::span<const std::byte> host) override;
  void read(std::span<std::byte> host, const std::byte* from) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void fill(const TensorView& to, double value) override;
  using Backend::prepare;
  PreparedKernel prepare(std::span<const FusedCall> calls) override;

 private:
  class Gate;
  void protect(int what);
  void check_thread() const;
  static void release(std::byte* data, std::int64_t bytes);

  std::thread::id driver_;  // nobody's until it has entered
  std::mutex mutex_;        // guards the fields: memory may go while the rank's thread waits
  std::map<std::byte*, std::size_t> fields_;  // by begin
};

DeviceKind fenced_devices();

}  // namespace shardwright::testing
