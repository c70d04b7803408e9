// What the machine has is read as Linux tells it, and devices that take more are refused in one line.

#include "shardwright/runtime/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

constexpr std::int64_t gb = 1000000000;

class Machine : public ::testing::Test {
 protected:
  void has(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    write_bytes(root_ + path, text);
  }
  HostMemory there() const { return free_memory(root_).value(); }

  std::string root_ = scratch_folder();
};

TEST_F(Machine, has_what_is_available_and_what_may_be_swapped_out) {
  has("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   64 kB\nSwapFree:  8 kB\n");
  EXPECT_EQ(there().bytes, 72 * 1024);
  EXPECT_EQ(there().said_by, "this machine has");
}

TEST_F(Machine, says_nothing_where_there_is_no_such_file) { EXPECT_FALSE(free_memory(root_)); }

/// Each within the one above it; files that were read are given back.
TEST_F(Machine, is_what_the_least_control_group_leaves) {
  has("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  has("/proc/self/cgroup", "0::/jobs/one\n");
  has("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  has("/sys/fs/cgroup/jobs/one/memory.current", "7000\n");
  EXPECT_EQ(there().said_by, "this machine has");
  has("/sys/fs/cgroup/jobs/memory.max", "50000\n");
  has("/sys/fs/cgroup/jobs/memory.current", "9000\n");
  has("/sys/fs/cgroup/jobs/memory.stat", "anon 6000\ninactive_file 2000\n");
  EXPECT_EQ(there().bytes, 43000);
  EXPECT_EQ(there().said_by, "this control group leaves");
}

TEST_F(Machine, knows_control_groups_of_the_first_version) {
  has("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  has("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/a\n0::/\n");
  has("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "50000\n");
  has("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "60000\n");
  EXPECT_EQ(there().bytes, 0);
}

TEST(HostMemory, is_asked_of_all_devices_here) {
  const DeviceMemory eight{.devices = 8, .arena_bytes = 198 * gb, .threads = 8};
  EXPECT_EQ(
      error_of([&] {
        require_host_memory(eight, HostMemory{20 * gb, "this machine has"}, std::nullopt);
      }),
      "8 virtual devices take 198.00 GB here, but this machine has 20.00 GB; take fewer devices, a smaller "
      "model or batch, or more machines");
  require_host_memory(eight, HostMemory{198 * gb, "this machine has"}, std::nullopt);
  require_host_memory(eight, std::nullopt, std::nullopt);
}

/// A thread's stack and heap take addresses, however small its arena is.
TEST(HostMemory, is_limited_by_addresses_too) {
  const HostMemory limit{6 * gb, "ulimit -v leaves this process"};
  const std::string said = error_of(
      [&] { require_host_memory({.devices = 256, .arena_bytes = gb / 10, .threads = 256}, {}, limit); });
  EXPECT_EQ(said.find("256 virtual devices take 100.0 MB here, and their threads "), 0U) << said;
  EXPECT_NE(said.find("but ulimit -v leaves this process 6.00 GB"), said.npos) << said;
  require_host_memory({.devices = 256, .arena_bytes = gb / 10, .threads = 1}, {}, limit);
}

}  // namespace
}  // namespace shardwright
