#include "shardwright/runtime/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "shardwright/base/error.h"
#include "shardwright/base/quantity.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

/// The number behind `key` in lines of "KEY NUMBER"; with no key, the first.
std::optional<std::int64_t> number_in(const std::string& path, std::string_view key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    if (std::int64_t number = 0; words >> number) return number;
    return std::nullopt;  // such as "max"
  }
  return std::nullopt;
}

void lower(std::optional<HostMemory>& least, std::int64_t bytes, std::string_view said_by) {
  bytes = std::max(bytes, std::int64_t{0});
  if (!least || bytes < least->bytes) least = {bytes, std::string(said_by)};
}

/// One folder of a control group: files that it has read are given back before anything is refused.
void lower_by_group(std::optional<HostMemory>& least, const std::string& folder, bool is_first_version) {
  const auto most = number_in(folder + (is_first_version ? "/memory.limit_in_bytes" : "/memory.max"));
  const auto used = number_in(folder + (is_first_version ? "/memory.usage_in_bytes" : "/memory.current"));
  if (!most || !used) return;
  const auto files =
      number_in(folder + "/memory.stat", is_first_version ? "total_inactive_file" : "inactive_file");
  lower(least, *most - std::max(std::int64_t{0}, *used - files.value_or(0)), "this control group leaves");
}

/// All groups that this process is in, each within the one above it.
void lower_by_groups(std::optional<HostMemory>& least, const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line;
       std::getline(groups, line);) {  // ID:CONTROLLERS:PATH; no controllers: the second version
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_first_version = controllers == "memory";
    if (!is_first_version && !controllers.empty()) continue;
    const std::string base = root + (is_first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      lower_by_group(least, base + path, is_first_version);
      if (path.find('/') == std::string::npos) break;
    }
  }
}

std::string devices_text(const DeviceMemory& d) {
  return fmt::format("{} virtual device{} {} {} here", d.devices, d.devices == 1 ? "" : "s",
                     d.devices == 1 ? "takes" : "take", bytes_text(d.arena_bytes));
}

/// A stack, and what an allocator sets aside for a thread: addresses, of which little becomes memory.
std::int64_t address_bytes_of_thread() {
  rlimit stack{};
  const bool is_known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
  return 40 * mib + (is_known ? static_cast<std::int64_t>(stack.rlim_cur) : 8 * mib);
}

}  // namespace

std::optional<HostMemory> free_memory(const std::string& root) {
  std::optional<HostMemory> least;
  const std::string info = root + "/proc/meminfo";  // in KiB
  if (const auto available = number_in(info, "MemAvailable:"))
    lower(least, (*available + number_in(info, "SwapFree:").value_or(0)) * 1024, "this machine has");
  lower_by_groups(least, root);
  return least;
}

std::optional<HostMemory> free_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto pages = number_in("/proc/self/statm");
  const auto most =
      static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int64_t>::max()));
  std::optional<HostMemory> out;
  lower(out, most - pages.value_or(0) * sysconf(_SC_PAGESIZE), "ulimit -v leaves this process");
  return out;
}

DeviceMemory memory_of_devices_here(const Pipeline& pipeline) {
  const int ranks = pipeline.rank_count();
  const bool is_rank = launched_ranks() == ranks && ranks > 1;
  DeviceMemory out{.devices = is_rank ? launched_ranks_here() : ranks, .threads = is_rank ? 1 : ranks};
  // Of ranks on several machines mpirun does not say which are here: as many like this one.
  if (out.devices < ranks)
    out.arena_bytes =
        out.devices * (pipeline.arena_bytes(*launched_rank()) + pipeline.host_bytes(*launched_rank()));
  else
    for (int r = 0; r < ranks; ++r) out.arena_bytes += pipeline.arena_bytes(r) + pipeline.host_bytes(r);
  return out;
}

void require_host_memory(const Pipeline& pipeline) {
  require_host_memory(memory_of_devices_here(pipeline), free_memory(), free_address_space());
}

void require_host_memory(const DeviceMemory& devices, const std::optional<HostMemory>& memory,
                         const std::optional<HostMemory>& address_space) {
  const auto refuse = [](const std::string& demand, const HostMemory& there) {
    throw Error(fmt::format("{}, but {} {}; take fewer devices, a smaller model or batch, or more machines",
                            demand, there.said_by, bytes_text(there.bytes)),
                ErrorKind::memory);
  };
  if (memory && devices.arena_bytes > memory->bytes) refuse(devices_text(devices), *memory);
  if (!address_space) return;
  const std::int64_t threads = devices.threads * address_bytes_of_thread();
  if (threads > address_space->bytes - devices.arena_bytes)
    refuse(fmt::format("{}, and their threads {} of addresses", devices_text(devices), bytes_text(threads)),
           *address_space);
}

Pipeline within_host_memory(Pipeline pipeline) {
  require_host_memory(pipeline);
  return pipeline;
}

}  // namespace shardwright
