// What the machine has for the virtual devices' memory, asked before anything is taken of it: a machine that runs out later
// kills some process, or swaps for minutes without a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// How much there is, and who says so, such as "this machine has".
struct HostMemory {
  std::int64_t bytes = 0;
  std::string said_by;
};

/// What is available or may be swapped out, or what the control groups of this process leave, if that is less. Nothing
/// where neither is known. `root` stands in front of /proc and /sys.
std::optional<HostMemory> free_memory(const std::string& root = "");
/// What the limit of address space leaves (`ulimit -v`), if there is one.
std::optional<HostMemory> free_address_space();

/// What the devices on this machine take.
struct DeviceMemory {
  int devices = 0;
  std::int64_t arena_bytes = 0;  // of all of them
  int threads = 0;               // of this process, each with a stack and a heap of its own
};

/// All ranks of `pipeline` as threads of this process; or, in a process that mpirun has started, the ranks of this machine.
DeviceMemory memory_of_devices_here(const Pipeline& pipeline);

/// Throws: Error of kind memory, in one line, if they take more than there is.
void require_host_memory(const Pipeline& pipeline);
/// The same pipeline, if there is enough.
Pipeline within_host_memory(Pipeline pipeline);
void require_host_memory(const DeviceMemory& devices, const std::optional<HostMemory>& memory,
                         const std::optional<HostMemory>& address_space);

}  // namespace shardwright
