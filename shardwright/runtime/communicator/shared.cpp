#include "shardwright/runtime/communicator/shared.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace shardwright {
namespace {

void move(const SharedTransfer& t, std::byte* to) {
  for (const Piece& piece : t.pieces) {
    const std::byte* from = t.from[static_cast<std::size_t>(piece.source)];
    if (from != to) copy_piece(piece, from, to, t.element_bytes);
  }
}

/// All operands have one shape, so the runs of one piece are those of all.
void reduce_scatter(SharedTransfer& t, std::byte* to) {
  for_each_run(t.pieces.front(), [&](std::int64_t f, std::int64_t at, std::int64_t n) {
    t.reduce_run(f, to + static_cast<std::size_t>(at) * t.element_bytes, n);
  });
}

/// This rank's part of the elements: sums it into its own result, block by block, and copies the block
/// into the others' while it is in the cache. Nobody else touches these elements, so results may be the
/// operands.
void all_reduce(SharedTransfer& t) {
  constexpr std::int64_t line = 64, block = 4096;  // elements; ranks meet between cache lines
  const auto n = static_cast<std::int64_t>(t.members.size());
  const Range lines = cut((t.count + line - 1) / line, n, static_cast<std::int64_t>(t.position));
  const std::int64_t end = std::min(lines.end * line, t.count);
  for (std::int64_t at = lines.begin * line; at < end; at += block) {
    const std::int64_t count = std::min(block, end - at);
    const std::size_t offset = static_cast<std::size_t>(at) * t.element_bytes;
    std::byte* own = t.to[t.position] + offset;
    t.reduce_run(at, own, count);
    for (std::size_t q = 0; q < t.to.size(); ++q)
      if (q != t.position)
        std::memcpy(t.to[q] + offset, own, static_cast<std::size_t>(count) * t.element_bytes);
  }
}

}  // namespace

void SharedMemory::add(std::vector<std::byte*> begins, std::size_t bytes) {
  regions_.push_back({std::move(begins), bytes});
}

Place SharedMemory::place(int self, const std::byte* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (regions_.empty()) return {.offset = address};
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    const auto begin = reinterpret_cast<std::uintptr_t>(regions_[r].begins[static_cast<std::size_t>(self)]);
    if (address >= begin && address <= begin + regions_[r].bytes) return {r, address - begin};
  }
  require(false, "a buffer of a transfer is not in memory that the communicator has allocated");
  return {};
}

Group& Group::make(void* memory, std::size_t size) {
  auto* group = new (memory) Group(size);
  std::uninitialized_default_construct_n(group->posted().data(), size);
  return *group;
}

bool Group::meet() {
  const std::uint32_t now = phase_.load();
  if (now & 1U) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < size_) {
    phase_.wait_while(now);
  } else {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.add(2);
  }
  return (phase_.load() & 1U) == 0;
}

void SharedTransfer::reduce_run(std::int64_t from_element, std::byte* out, std::int64_t n) {
  const std::size_t offset = static_cast<std::size_t>(from_element) * element_bytes;
  for (std::size_t q = 0; q < operands.size(); ++q) operands[q] = from[q] + offset;
  reduce(operands, out, n);
}

SharedTransfer shared_transfer(const Transfer& t, DType dtype, Group* group, std::vector<int> members,
                               std::size_t position) {
  SharedTransfer out{.group = group, .members = std::move(members), .position = position, .kind = t.kind};
  if (t.reduces) out.reduce = reduce_of(dtype, t.reduction);
  out.clears = t.clears;
  out.element_bytes = size_of(dtype);
  out.count = element_count(t.to_shape);
  out.from.resize(out.members.size());
  out.to.resize(out.members.size());
  out.operands.resize(out.members.size());
  for (Piece piece : t.pieces) {
    const auto source = std::find(out.members.begin(), out.members.end(), piece.source);
    if (source == out.members.end()) continue;  // it comes over the network
    piece.source = static_cast<int>(source - out.members.begin());
    out.pieces.push_back(std::move(piece));
  }
  return out;
}

bool open(SharedTransfer& t, const SharedMemory& memory, const std::byte* from, std::byte* to) {
  t.from[t.position] = from;
  t.to[t.position] = to;
  if (!t.group) return true;
  const auto posted = t.group->posted();
  posted[t.position] = {memory.place(t.self(), from), memory.place(t.self(), to), t.order};
  if (!t.group->meet()) return false;
  for (std::size_t q = 0; q < posted.size(); ++q) {
    require(posted[q].order == t.order, "a rank runs transfer {} of its group while a peer runs {}", t.order,
            posted[q].order);
    t.from[q] = memory.address(t.members[q], posted[q].from);
    t.to[q] = memory.address(t.members[q], posted[q].to);
  }
  return true;
}

void work(SharedTransfer& t, std::byte* to) {
  if (t.clears)
    std::memset(to, 0, static_cast<std::size_t>(t.count) * t.element_bytes);
  else if (t.kind == StepKind::all_reduce)
    all_reduce(t);
  else if (t.reduce)
    reduce_scatter(t, to);
  else
    move(t, to);
}

bool close(SharedTransfer& t) { return !t.group || t.group->meet(); }

}  // namespace shardwright
