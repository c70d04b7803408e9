#include "shardwright/passes/place_buffers.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/passes/occupied.h"

namespace shardwright {

std::int64_t place_buffers(std::vector<Buffer*> buffers, std::size_t nodes, std::int64_t begin) {
  constexpr std::int64_t most = std::int64_t{1} << 61;
  std::ranges::stable_sort(buffers, std::ranges::greater(), [](const Buffer* b) { return b->bytes; });
  std::int64_t of_slots = begin;
  for (Buffer* b : buffers) {
    if (!b->is_in_slots()) continue;
    b->offset = of_slots;
    if (b->bytes > (most - of_slots) / b->slots)
      throw error("{} micro-batches are alive at once, of more than {} bytes (2^61) together", b->slots,
                  most);
    of_slots = b->end_offset();
  }
  std::int64_t end = of_slots;
  Occupied occupied(static_cast<int>(nodes) + 2);
  for (Buffer* b : buffers) {
    if (b->is_in_slots()) continue;
    const Lifetime life{b->begin.index + 1, b->end.index + 1};
    b->offset = occupied.lowest_free(life, b->bytes, of_slots);
    occupied.take(life, b->offset, b->bytes);
    end = std::max(end, b->end_offset());
  }
  return end;
}

}  // namespace shardwright
