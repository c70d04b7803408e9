#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t allocations = 0, allocated = 0;

void* counted(std::size_t bytes) noexcept {
  ++allocations;
  allocated += static_cast<std::int64_t>(bytes);
  return std::malloc(bytes);
}

void* counted_or_thrown(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace shardwright::testing {
std::int64_t allocations_of_this_thread() { return allocations; }
std::int64_t bytes_allocated_by_this_thread() { return allocated; }
}  // namespace shardwright::testing
