// Counts what this thread takes from operator new, for tests of code that must not allocate.
#pragma once

#include <cstdint>

namespace shardwright::testing {

std::int64_t allocations_of_this_thread();
/// In bytes, given back or not.
std::int64_t bytes_allocated_by_this_thread();

}  // namespace shardwright::testing
