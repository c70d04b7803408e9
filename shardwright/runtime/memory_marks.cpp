#include "shardwright/runtime/memory_marks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace shardwright {

std::int64_t resident_bytes(const std::byte* data, std::int64_t bytes) {
  if (bytes <= 0) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + static_cast<std::uintptr_t>(bytes);
  const std::uintptr_t first = begin / page * page;
  std::vector<unsigned char> pages((end - first + page - 1) / page);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the page on which the data begin
  if (mincore(reinterpret_cast<void*>(first), end - first, pages.data()) != 0) return 0;
  std::uintptr_t resident = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::uintptr_t from = std::max(begin, first + i * page), to = std::min(end, first + (i + 1) * page);
    if (pages[i] & 1U) resident += to - from;
  }
  return static_cast<std::int64_t>(resident);
}

std::int64_t most_bytes_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

}  // namespace shardwright
