#include "shardwright/runtime/backend/cpu/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace shardwright::cpu {
namespace {

std::size_t in_huge_pages(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + huge_page - 1) / huge_page * huge_page);
}

}  // namespace

Error no_memory(std::int64_t bytes) {
  return Error(fmt::format("no memory for {} bytes", bytes), ErrorKind::memory);
}

Memory allocate_pages(std::int64_t bytes) {
  const std::size_t rounded = in_huge_pages(bytes), step = static_cast<std::size_t>(huge_page);
  void* all = mmap(nullptr, rounded + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw no_memory(bytes);
  auto* begin = static_cast<std::byte*>(all);
  const std::size_t before = (step - reinterpret_cast<std::uintptr_t>(begin) % step) % step;
  if (before > 0) munmap(begin, before);
  if (before < step) munmap(begin + before + rounded, step - before);
  std::byte* data = begin + before;
  madvise(data, rounded, MADV_HUGEPAGE);  // a wish; refusing it is fine
  return {{data, {[](std::byte* d, std::int64_t n) { munmap(d, in_huge_pages(n)); }, bytes}}};
}

std::int64_t resident_bytes(std::span<const std::byte> memory) {
  if (memory.empty()) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()), end = begin + memory.size();
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

}  // namespace shardwright::cpu
