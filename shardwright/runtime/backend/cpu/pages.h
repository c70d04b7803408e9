// Memory from the operating system, page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardwright/runtime/backend/backend.h"

namespace shardwright::cpu {

constexpr std::int64_t huge_page = std::int64_t{1} << 21;

/// Zeros, which take no memory before they are touched; in huge pages if possible. Throws: Error of kind memory.
Memory allocate_pages(std::int64_t bytes);

/// Of these bytes, those on pages that are in memory.
std::int64_t resident_bytes(std::span<const std::byte> memory);

Error no_memory(std::int64_t bytes);

}  // namespace shardwright::cpu
