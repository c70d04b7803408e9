#include "shardwright/runtime/communicator/shared.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace shardwright {
namespace {

void move(const SharedPart& p, std::byte* to) {
  for (const Piece& piece : p.pieces) {
    const std::byte* from = p.from[static_cast<std::size_t>(piece.source)];
    if (from != to) p.copy(piece, from, to);
  }
}

/// All operands have one shape, so the runs of one piece are those of all.
void reduce_scatter(SharedPart& p, std::byte* to) {
  if (p.routed) {
    const std::size_t bytes = static_cast<std::size_t>(p.routed->width) * p.element_bytes;
    for_each_row(p.pieces.front(), [&](std::int64_t f, std::int64_t at) {
      std::byte* const row = to + static_cast<std::size_t>(at) * p.element_bytes;
      if (!p.reduce_row(f, row)) std::memset(row, 0, bytes);
    });
    return;
  }
  for_each_run(p.pieces.front(), [&](std::int64_t f, std::int64_t at, std::int64_t n) {
    p.reduce_run(f, to + static_cast<std::size_t>(at) * p.element_bytes, n);
  });
}

/// This rank's part of the elements: sums it into its own result, block by block, and copies the block
/// into the others' while it is in the cache. Nobody else touches these elements, so results may be the
/// operands.
void all_reduce(SharedPart& p) {
  constexpr std::int64_t line = 64, block = 4096;  // elements; ranks meet between cache lines
  const auto n = static_cast<std::int64_t>(p.to.size());
  const Range lines = cut((p.count + line - 1) / line, n, static_cast<std::int64_t>(p.position));
  const std::int64_t end = std::min(lines.end * line, p.count);
  for (std::int64_t at = lines.begin * line; at < end; at += block) {
    const std::int64_t count = std::min(block, end - at);
    const std::size_t offset = static_cast<std::size_t>(at) * p.element_bytes;
    std::byte* own = p.to[p.position] + offset;
    p.reduce_run(at, own, count);
    for (std::size_t q = 0; q < p.to.size(); ++q)
      if (q != p.position)
        std::memcpy(p.to[q] + offset, own, static_cast<std::size_t>(count) * p.element_bytes);
  }
}

SharedPart part_of(const BoundTransfer& bound, const std::vector<int>& members, std::size_t position) {
  const Transfer& t = bound.transfer;
  SharedPart out{.kind = t.kind, .position = position, .pieces = {}, .from = {}, .to = {}};
  if (t.reduces) out.reduce = reduce_of(bound.dtype, t.reduction);
  out.clears = t.clears;
  out.element_bytes = size_of(bound.dtype);
  out.count = element_count(t.to_shape);
  out.from.resize(members.size());
  out.to.resize(members.size());
  out.from[position] = bound.from;
  out.to[position] = bound.to;
  out.operands.resize(members.size());
  if (t.sets) {
    std::vector<std::size_t> here;
    for (std::size_t m = 0; m < t.group.size(); ++m)
      if (std::ranges::find(members, t.group[m]) != members.end()) here.push_back(m);
    out.routed = {ExpertSets(*t.sets, here), bound.ids, bound.ids_dtype, t.to_shape.back()};
  }
  for (Piece piece : t.pieces) {
    const auto source = std::find(members.begin(), members.end(), piece.source);
    if (source == members.end()) continue;  // it comes over the network
    piece.source = static_cast<int>(source - members.begin());
    out.pieces.push_back(std::move(piece));
  }
  return out;
}

}  // namespace

void SharedMemory::add(std::vector<std::byte*> begins, std::size_t bytes) {
  const auto free = std::ranges::find_if(regions_, [](const Region& r) { return r.begins.empty(); });
  if (free != regions_.end())
    *free = {std::move(begins), bytes};
  else
    regions_.push_back({std::move(begins), bytes});
}

void SharedMemory::remove(int self, const std::byte* begin) {
  for (Region& region : regions_)
    if (!region.begins.empty() && region.begins[static_cast<std::size_t>(self)] == begin) region = {};
}

Place SharedMemory::place(int self, const std::byte* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (!data) return {};
  if (regions_.empty()) return {.offset = address};
  // What is empty may lie at the end of a region, where another may begin.
  for (const std::uintptr_t behind : {0, 1})
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      if (regions_[r].begins.empty()) continue;
      const auto begin = reinterpret_cast<std::uintptr_t>(regions_[r].begins[static_cast<std::size_t>(self)]);
      if (address >= begin && address < begin + regions_[r].bytes + behind) return {r, address - begin};
    }
  require(false, "a buffer of a transfer is not in memory that the communicator has allocated");
  return {};
}

std::uint64_t Group::arrive(Arrivals& arrivals) {
  const std::uint64_t before = arrivals.fetch_add(1, std::memory_order_acq_rel);
  if ((before + 1) % size_ == 0) events_.add(2);
  return before / size_ + 1;  // nobody comes again before all have come
}

bool Group::agrees(std::uint64_t count, int order) {
  constexpr int order_bits = 24;
  const std::uint64_t mine = count << order_bits | static_cast<std::uint64_t>(order);
  std::atomic<std::uint64_t>& entry = started_[count % started_.size()];
  std::uint64_t there = entry.load(std::memory_order_relaxed);
  while (there >> order_bits < count)
    if (entry.compare_exchange_weak(there, mine, std::memory_order_relaxed)) return true;
  return there >> order_bits > count || there == mine;
}

std::size_t Meeting::bytes(std::size_t members, std::size_t parts) {
  const std::size_t bytes = sizeof(Meeting) + members * (parts * sizeof(Buffers) + sizeof(Rounds));
  return (bytes + alignof(Meeting) - 1) / alignof(Meeting) * alignof(Meeting);
}

void SharedPart::reduce_run(std::int64_t from_element, std::byte* out, std::int64_t n) {
  const std::size_t offset = static_cast<std::size_t>(from_element) * element_bytes;
  for (std::size_t q = 0; q < from.size(); ++q) operands[q] = from[q] + offset;
  reduce(std::span(operands).first(from.size()), out, n);
}

bool SharedPart::reduce_row(std::int64_t from_element, std::byte* out) {
  const RoutedIds ids(routed->sets, routed->dtype, routed->ids);
  const std::size_t offset = static_cast<std::size_t>(from_element) * element_bytes;
  std::size_t addends = 0;
  for (std::size_t q = 0; q < from.size(); ++q)
    if (ids.goes_to(q, from_element / routed->width)) operands[addends++] = from[q] + offset;
  if (addends > 0) reduce(std::span(operands).first(addends), out, routed->width);
  return addends > 0;
}

void SharedPart::copy(const Piece& piece, const std::byte* source, std::byte* own) const {
  if (!routed) return copy_piece(piece, source, own, element_bytes);
  const RoutedIds ids(routed->sets, routed->dtype, routed->ids);
  const std::size_t bytes = static_cast<std::size_t>(routed->width) * element_bytes;
  for_each_row(piece, [&](std::int64_t f, std::int64_t t) {
    std::byte* const row = own + static_cast<std::size_t>(t) * element_bytes;
    if (ids.goes_to(position, t / routed->width))
      std::memcpy(row, source + static_cast<std::size_t>(f) * element_bytes, bytes);
    else
      std::memset(row, 0, bytes);
  });
}

void work(SharedPart& p) {
  std::byte* to = p.to[p.position];
  if (p.clears)
    std::memset(to, 0, static_cast<std::size_t>(p.count) * p.element_bytes);
  else if (p.kind == StepKind::all_reduce)
    all_reduce(p);
  else if (p.reduce)
    reduce_scatter(p, to);
  else
    move(p, to);
}

SharedTransfer::SharedTransfer(std::span<const BoundTransfer> transfers, Membership* membership,
                               Meeting* meeting, std::vector<int> members, std::size_t position,
                               const SharedMemory& memory)
    : membership_(membership),
      meeting_(meeting),
      members_(std::move(members)),
      position_(position),
      memory_(&memory) {
  for (const BoundTransfer& t : transfers) {
    parts_.push_back(part_of(t, members_, position));
    is_all_reduce_ = is_all_reduce_ && t.transfer.kind == StepKind::all_reduce;
    takes_ = takes_ || t.to != nullptr;
    gives_ = gives_ || t.from != nullptr;
  }
  if (!membership) return;
  order_ = membership->prepared++;
  rounds_ = meeting->rounds(members_.size(), parts_.size());
  const int self = members_[position];
  for (std::size_t p = 0; p < transfers.size(); ++p)
    meeting->buffers()[p * members_.size() + position] = {memory.place(self, transfers[p].from),
                                                          memory.place(self, transfers[p].to)};
}

void SharedTransfer::start() {
  has_worked_ = false;
  if (!membership_) return;
  require(membership_->group->agrees(++membership_->started, order_),
          "a rank starts transfer {} of its group while a peer starts another", order_);
  round_ = membership_->group->arrive(meeting_->started);
  rounds_[position_].started.store(round_, std::memory_order_relaxed);
  if (!takes_) leave();
}

void SharedTransfer::learn_addresses() {
  knows_addresses_ = true;
  for (std::size_t p = 0; p < parts_.size(); ++p)
    for (std::size_t q = 0; q < members_.size(); ++q) {
      const Meeting::Buffers& buffers = meeting_->buffers()[p * members_.size() + q];
      parts_[p].from[q] = memory_->address(members_[q], buffers.from);
      parts_[p].to[q] = memory_->address(members_[q], buffers.to);
    }
}

bool SharedTransfer::has_opened() {
  if (!membership_) return true;
  if (!membership_->group->have_all_come(meeting_->started, round_)) return false;
  if (!knows_addresses_) learn_addresses();
  return true;
}

void SharedTransfer::add_missing(std::vector<int>& out,
                                 std::atomic<std::uint64_t> Meeting::Rounds::*last) const {
  for (std::size_t q = 0; membership_ && q < members_.size(); ++q)
    if (q != position_ && (rounds_[q].*last).load() < round_) out.push_back(members_[q]);
}

bool SharedTransfer::wait(const Arrivals& arrivals, std::atomic<std::uint64_t> Meeting::Rounds::*last,
                          Vigil& vigil) {
  return membership_->group->wait(arrivals, round_, vigil.pause(), [&] {
    add_missing(vigil.missing(), last);
    vigil.look_for(name_of(kind()));
  });
}

bool SharedTransfer::open(Vigil& vigil) {
  return !membership_ || (wait(meeting_->started, &Meeting::Rounds::started, vigil) && has_opened());
}

void SharedTransfer::work() {
  if (has_worked_) return;
  for (SharedPart& part : parts_) shardwright::work(part);
  leave();
}

void SharedTransfer::leave() {
  if (std::exchange(has_worked_, true)) return;
  if (!membership_) return;
  membership_->group->arrive(meeting_->done);
  rounds_[position_].done.store(round_, std::memory_order_relaxed);
}

void SharedTransfer::receive() {
  if (!membership_) return;
  membership_->group->arrive(meeting_->received);
  rounds_[position_].received.store(round_, std::memory_order_relaxed);
}

bool SharedTransfer::have_received() const {
  return !membership_ || membership_->group->have_all_come(meeting_->received, round_);
}

bool SharedTransfer::wait_for_received(Vigil& vigil) {
  return !membership_ || wait(meeting_->received, &Meeting::Rounds::received, vigil);
}

bool SharedTransfer::has_closed() const {
  return !membership_ || !gives_ || membership_->group->have_all_come(meeting_->done, round_);
}

bool SharedTransfer::close(Vigil& vigil) {
  return !membership_ || !gives_ || wait(meeting_->done, &Meeting::Rounds::done, vigil);
}

}  // namespace shardwright
