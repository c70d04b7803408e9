#include "shardwright/runtime/communicator/between_hosts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shardwright/base/index.h"

namespace shardwright {
namespace {

/// Of what is sent at once: a tenth of a second at 100 Mbit/s, a thousandth at 10 Gbit/s.
constexpr std::int64_t most_of_box = 1 << 20;
/// Between more than two hosts all adders send each other so much: it is on its way for less time than a message takes anyway.
constexpr std::int64_t most_for_all = 8 << 10;

/// Boxes of which MPI is asked at once whether they have come.
constexpr int most_asked = 4;

/// The one of the members of a host that looks after the `index`-th of many.
int one_of(const std::vector<int>& there, std::size_t index) { return there[index % there.size()]; }

/// By host, of the `index`-th share.
std::vector<int> adders_of(const MembersByHost& by_host, std::size_t index) {
  std::vector<int> out;
  for (const auto& there : by_host.members) out.push_back(one_of(there, index));
  return out;
}

/// That one member, which has the `index`-th share, gets the sums of.
NetworkBox box_of(const MembersByHost& by_host, std::size_t index) {
  NetworkBox out{.adders = adders_of(by_host, index), .one = by_host.host_of[index]};
  out.adders[*out.one] = static_cast<int>(index);
  return out;
}

Piece flat(const Range& elements) {
  return {.from_offset = elements.begin,
          .to_offset = elements.begin,
          .extent = {elements.end - elements.begin},
          .from_strides = {1},
          .to_strides = {1}};
}

/// All that the members of an all_reduce of `count` elements reduce, in an order that is the same on all of them.
std::vector<NetworkBox> boxes_of(const MembersByHost& by_host, std::int64_t count,
                                 std::size_t element_bytes) {
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  const bool is_for_all = by_host.members.size() == 2 || count * bytes <= most_for_all;
  std::size_t most = 0;
  for (const auto& there : by_host.members) most = std::max(most, there.size());
  const std::size_t shares = is_for_all ? most : by_host.host_of.size();
  std::vector<NetworkBox> out;
  for (std::size_t s = 0; s < shares; ++s) {
    NetworkBox box = is_for_all ? NetworkBox{.adders = adders_of(by_host, s)} : box_of(by_host, s);
    const Range share = cut(count, static_cast<std::int64_t>(shares), static_cast<std::int64_t>(s));
    const std::int64_t elements = share.end - share.begin, parts = (elements * bytes - 1) / most_of_box + 1;
    for (std::int64_t i = 0; i < parts; ++i) {
      const Range part = cut(elements, parts, i);
      box.box = flat({share.begin + part.begin, share.begin + part.end});
      // Two members that are adders for several boxes are those of one share alone, but where all add.
      box.number = is_for_all ? static_cast<int>(out.size()) : static_cast<int>(i);
      if (part.end > part.begin) out.push_back(box);
    }
  }
  return out;
}

/// Those that this rank takes part in: its own, and those of members elsewhere that it reduces here.
std::vector<NetworkBox> boxes_of_reduce_scatter(const Network& network, const MembersByHost& by_host,
                                                Messages& messages, const Piece& own) {
  std::vector<NetworkBox> out{box_of(by_host, at(network.self))};
  out.front().box = own;
  std::vector<std::pair<int, std::vector<Piece>>> asked;
  for (const int adder : out.front().adders)
    if (adder != network.self) asked.emplace_back(adder, std::vector<Piece>{own});
  std::vector<int> wanting;
  for (int q = 0; q < static_cast<int>(network.hosts.size()); ++q)
    if (!network.is_here(q) && adders_of(by_host, at(q))[by_host.own] == network.self) wanting.push_back(q);
  const std::vector<std::vector<Piece>> boxes = messages.exchange(asked, wanting);
  for (std::size_t i = 0; i < wanting.size(); ++i) {
    out.push_back(box_of(by_host, at(wanting[i])));
    out.back().box = boxes[i].front();
  }
  return out;
}

/// By host, which experts its members have; none where all rows move.
ExpertSets sets_by_host(const MembersByHost& by_host, const Transfer& t) {
  if (!t.sets) return {};
  std::vector<ExpertSets> of;
  for (const auto& there : by_host.members) {
    const std::vector<std::size_t> members(there.begin(), there.end());
    of.push_back(t.sets->joined(members));
  }
  return ExpertSets(of);
}

/// Calls `use(from offset, to offset)` for those rows of a piece that go to `host`, or come from it; `row_at` says which of the two
/// offsets is on the side on which rows are together.
enum class RowAt { from, to };
template <class F>
void for_each_routed_row(const Piece& piece, RowAt row_at, const SharedPart& part, const ExpertSets& by_host,
                         std::size_t host, F use) {
  const RoutedIds ids(by_host, part.routed->dtype, part.routed->ids);
  for_each_row(piece, [&](std::int64_t f, std::int64_t t) {
    if (ids.goes_to(host, (row_at == RowAt::from ? f : t) / part.routed->width)) use(f, t);
  });
}

/// Bytes of those rows.
std::size_t routed_bytes(const Piece& piece, RowAt row_at, const SharedPart& part, const ExpertSets& by_host,
                         std::size_t host) {
  std::size_t rows = 0;
  for_each_routed_row(piece, row_at, part, by_host, host, [&](std::int64_t, std::int64_t) { ++rows; });
  return rows * static_cast<std::size_t>(part.routed->width) * part.element_bytes;
}

}  // namespace

NetworkMove::NetworkMove(Network& network, MessageBuffers& buffers, const Transfer& t,
                         std::size_t element_bytes)
    : buffers_(&buffers), messages_(network, 1) {
  const MembersByHost by_host(network);
  by_host_ = sets_by_host(by_host, t);
  const auto receiver = [&](std::size_t host, int source) {
    return one_of(by_host.members[host], at(source));
  };
  const bool shares = NetworkTransfer::receives_for_others(t);
  const std::vector<int>& here = by_host.members[by_host.own];
  std::vector<std::pair<int, std::vector<Piece>>> asked;
  std::vector<int> asking;
  for (int q = 0; q < static_cast<int>(t.group.size()); ++q) {
    if (network.is_here(q)) continue;
    if (!shares || receiver(by_host.host_of[at(q)], network.self) == q) asking.push_back(q);
    std::vector<Piece> pieces;
    for (const Piece& piece : t.pieces)
      if (piece.source == t.group[at(q)]) pieces.push_back(piece);
    if (const int by = receiver(by_host.own, q); shares && by != network.self) {
      for (Piece& piece : pieces) {
        piece.source = static_cast<int>(std::ranges::find(here, by) - here.begin());
        piece.from_offset = piece.to_offset;
        piece.from_strides = piece.to_strides;
        taken_.push_back(std::move(piece));
      }
      continue;
    }
    asked.emplace_back(q, std::move(pieces));
  }
  const std::vector<std::vector<Piece>> wanted = messages_.exchange(asked, asking);
  const auto add = [&](std::vector<Message>& to, int member, const std::vector<Piece>& pieces) {
    const std::size_t size = packed_bytes(pieces, element_bytes);
    const std::size_t host = &to == &receives_ ? by_host.own : by_host.host_of[at(member)];
    if (size > 0) to.push_back({.member = member, .pieces = pieces, .size = size, .host = host});
  };
  for (const auto& [member, pieces] : asked) add(receives_, member, pieces);
  for (std::size_t i = 0; i < asking.size(); ++i) add(sends_, asking[i], wanted[i]);
}

/// What of a message is on its way in this step.
std::size_t NetworkMove::size_of(const Message& m, const SharedPart& part) const {
  if (!part.routed) return m.size;
  std::size_t out = 0;
  for (const Piece& piece : m.pieces) out += routed_bytes(piece, RowAt::to, part, by_host_, m.host);
  return out;
}

void NetworkMove::start(const SharedPart& part) {
  for (Message& m : receives_) {
    m.bytes = buffers_->take(m.size);
    messages_.receive(std::span(m.bytes).first(size_of(m, part)), m.member, MessageKind::moved);
  }
  const std::byte* const from = part.from[part.position];
  for (Message& m : sends_) {
    if (!part.routed && m.pieces.size() == 1 && is_one_run(m.pieces.front())) {  // as it lies there
      const auto offset = static_cast<std::size_t>(m.pieces.front().from_offset) * part.element_bytes;
      messages_.send({from + offset, m.size}, m.member, MessageKind::moved);
      continue;
    }
    m.bytes = buffers_->take(m.size);
    std::byte* packed = m.bytes.data();
    for (const Piece& piece : m.pieces) packed = pack_of(piece, from, packed, m.host, part);
    messages_.send({m.bytes.data(), packed}, m.member, MessageKind::moved);
  }
}

void NetworkMove::finish(SharedPart& part) {
  for (Message& m : receives_) {
    const std::byte* packed = m.bytes.data();
    for (const Piece& piece : m.pieces) packed = unpack_of(piece, packed, m.host, part);
  }
  for (auto* messages : {&sends_, &receives_})
    for (Message& m : *messages) buffers_->give_back(m.bytes);
}

/// Both return where the next piece begins among the packed, as `pack` and `unpack` do. Rows that do not come are zero.
std::byte* NetworkMove::pack_of(const Piece& piece, const std::byte* from, std::byte* packed,
                                std::size_t host, const SharedPart& part) const {
  if (!part.routed) return pack(piece, from, packed, part.element_bytes);
  const std::size_t bytes = static_cast<std::size_t>(part.routed->width) * part.element_bytes;
  for_each_routed_row(piece, RowAt::to, part, by_host_, host, [&](std::int64_t f, std::int64_t) {
    std::memcpy(packed, from + static_cast<std::size_t>(f) * part.element_bytes, bytes);
    packed += bytes;
  });
  return packed;
}

const std::byte* NetworkMove::unpack_of(const Piece& piece, const std::byte* packed, std::size_t host,
                                        const SharedPart& part) const {
  std::byte* const to = part.to[part.position];
  if (!part.routed) return unpack(piece, packed, to, part.element_bytes);
  const std::size_t bytes = static_cast<std::size_t>(part.routed->width) * part.element_bytes;
  for_each_row(piece, [&](std::int64_t, std::int64_t t) {
    std::memset(to + static_cast<std::size_t>(t) * part.element_bytes, 0, bytes);
  });
  for_each_routed_row(piece, RowAt::to, part, by_host_, host, [&](std::int64_t, std::int64_t t) {
    std::memcpy(to + static_cast<std::size_t>(t) * part.element_bytes, packed, bytes);
    packed += bytes;
  });
  return packed;
}

void NetworkMove::take_from_others(SharedPart& part) const {
  for (const Piece& piece : taken_) part.copy(piece, part.to[at(piece.source)], part.to[part.position]);
}

NetworkSum::NetworkSum(MessageBuffers& buffers, const Messages& messages, NetworkBox box,
                       std::size_t own_host, std::size_t element_bytes, ExpertSets by_host)
    : buffers_(&buffers),
      messages_(messages),
      box_(std::move(box)),
      own_host_(own_host),
      size_(packed_bytes({box_.box}, element_bytes)),
      sums_(box_.adders.size()),
      operands_(box_.adders.size()),
      addends_(box_.adders.size()),
      by_host_(std::move(by_host)) {}

std::size_t NetworkSum::size_from(std::size_t host, const SharedPart& part) const {
  return part.routed ? routed_bytes(box_.box, RowAt::from, part, by_host_, host) : size_;
}

void NetworkSum::start(const SharedPart& part) {
  stage_ = Stage::opening;
  for (std::size_t h = 0; reduces_all() && h < sums_.size(); ++h) {
    if (h == own_host_) continue;
    sums_[h] = buffers_->take(size_);
    messages_.receive(std::span(sums_[h]).first(size_from(h, part)), box_.adders[h], MessageKind::sum,
                      box_.number);
  }
}

/// The operands of this host, reduced over the box; a single one as it lies there.
void NetworkSum::reduce_here(SharedPart& part) {
  for (std::size_t h = 0; h < sums_.size(); ++h) operands_[h] = sums_[h].data();
  std::size_t size = size_;
  if (part.routed) {
    sums_[own_host_] = buffers_->take(size_);
    std::byte* packed = sums_[own_host_].data();
    operands_[own_host_] = packed;
    for_each_row(box_.box, [&](std::int64_t f, std::int64_t) {
      if (part.reduce_row(f, packed))
        packed += static_cast<std::size_t>(part.routed->width) * part.element_bytes;
    });
    size = static_cast<std::size_t>(packed - sums_[own_host_].data());
  } else if (part.from.size() == 1 && is_one_run(box_.box)) {
    operands_[own_host_] =
        part.from.front() + static_cast<std::size_t>(box_.box.from_offset) * part.element_bytes;
  } else {
    sums_[own_host_] = buffers_->take(size_);
    std::byte* packed = sums_[own_host_].data();
    operands_[own_host_] = packed;
    for_each_run(box_.box, [&](std::int64_t f, std::int64_t, std::int64_t n) {
      part.reduce_run(f, packed, n);
      packed += static_cast<std::size_t>(n) * part.element_bytes;
    });
  }
  for (std::size_t h = 0; h < sums_.size(); ++h)
    if (h != own_host_ && (!box_.one || *box_.one == h))
      messages_.send({operands_[own_host_], size}, box_.adders[h], MessageKind::sum, box_.number);
}

void NetworkSum::reduce_all(SharedPart& part) {
  const auto count = static_cast<std::int64_t>(size_ / part.element_bytes);
  if (part.kind != StepKind::all_reduce) {
    result_ = buffers_->take(size_);
    if (part.routed) return reduce_rows(part);
    return part.reduce(operands_, result_.data(), count);
  }
  std::byte* const own =
      part.to[part.position] + static_cast<std::size_t>(box_.box.to_offset) * part.element_bytes;
  part.reduce(operands_, own, count);
  for (std::size_t q = 0; q < part.to.size(); ++q)
    if (q != part.position) unpack(box_.box, own, part.to[q], part.element_bytes);
  for (std::size_t h = 0; box_.one && h < sums_.size(); ++h)
    if (h != own_host_) messages_.send({own, size_}, box_.adders[h], MessageKind::result, box_.number);
}

/// Each host has sent the rows of its experts alone, one after the other.
void NetworkSum::reduce_rows(SharedPart& part) {
  const RoutedIds ids(by_host_, part.routed->dtype, part.routed->ids);
  const std::size_t bytes = static_cast<std::size_t>(part.routed->width) * part.element_bytes;
  std::byte* out = result_.data();
  for_each_row(box_.box, [&](std::int64_t f, std::int64_t) {
    std::size_t count = 0;
    for (std::size_t h = 0; h < operands_.size(); ++h)
      if (ids.goes_to(h, f / part.routed->width))
        addends_[count++] = std::exchange(operands_[h], operands_[h] + bytes);
    if (count > 0)
      part.reduce(std::span(addends_).first(count), out, part.routed->width);
    else
      std::memset(out, 0, bytes);
    out += bytes;
  });
}

bool NetworkSum::advance(SharedPart& part, bool has_opened) {
  if (stage_ == Stage::opening && has_opened) {
    reduce_here(part);
    stage_ = Stage::collecting;
  }
  if (stage_ == Stage::collecting && messages_.have_come()) {
    if (reduces_all()) {
      reduce_all(part);
    } else if (part.kind == StepKind::all_reduce) {
      result_ = buffers_->take(size_);
      messages_.receive(result_, box_.adders[*box_.one], MessageKind::result, box_.number);
    }
    stage_ = Stage::returning;
  }
  if (stage_ == Stage::returning && messages_.have_come()) {
    if (part.kind == StepKind::all_reduce && !reduces_all()) {
      for (std::byte* to : part.to) unpack(box_.box, result_.data(), to, part.element_bytes);
      buffers_->give_back(result_);
    }
    for (auto& sum : sums_) buffers_->give_back(sum);
    stage_ = Stage::done;
  }
  return stage_ == Stage::done;
}

void NetworkSum::finish(SharedPart& part) {
  if (!result_.empty())  // of a reduce_scatter
    unpack(box_.box, result_.data(), part.to[part.position], part.element_bytes);
  buffers_->give_back(result_);
}

NetworkTransfer::NetworkTransfer(Network& network, MessageBuffers& buffers, const Transfer& t,
                                 const SharedPart& part) {
  if (!t.reduces) {
    move_.emplace(network, buffers, t, part.element_bytes);
    return;
  }
  const MembersByHost by_host(network);
  const bool is_all_reduce = t.kind == StepKind::all_reduce;
  std::vector<NetworkBox> boxes;
  if (is_all_reduce) boxes = boxes_of(by_host, part.count, part.element_bytes);
  int numbers = 1;
  for (const NetworkBox& box : boxes) numbers = std::max(numbers, box.number + 1);
  Messages messages(network, numbers);
  if (!is_all_reduce) boxes = boxes_of_reduce_scatter(network, by_host, messages, t.pieces.front());
  for (NetworkBox& box : boxes)
    if (box.adders[by_host.own] == network.self)
      sums_.emplace_back(buffers, messages, std::move(box), by_host.own, part.element_bytes,
                         sets_by_host(by_host, t));
}

void NetworkTransfer::start(const SharedPart& part) {
  if (move_) move_->start(part);
  for (NetworkSum& sum : sums_) sum.start(part);
}

bool NetworkTransfer::advance(SharedPart& part, bool has_opened) {
  bool is_done = !move_ || move_->advance();
  int waits = 0;  // boxes come about in their order, and to ask MPI of each takes time
  for (NetworkSum& sum : sums_) {
    if (sum.is_done() || (waits >= most_asked && !(sum.is_opening() && has_opened))) {
      is_done = is_done && sum.is_done();
      continue;
    }
    if (!sum.advance(part, has_opened)) is_done = false, ++waits;
  }
  return is_done;
}

void NetworkTransfer::add_missing(std::vector<int>& out) const {
  if (move_) move_->add_missing(out);
  for (const NetworkSum& sum : sums_) sum.add_missing(out);
}

void NetworkTransfer::finish(SharedPart& part) {
  if (move_) move_->finish(part);
  for (NetworkSum& sum : sums_) sum.finish(part);
}

void NetworkTransfer::take_from_others(SharedPart& part) const {
  if (move_) move_->take_from_others(part);
}

}  // namespace shardwright
