#include "shardwright/runtime/communicator/between_hosts.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardwright {
namespace {

// What a message of a transfer holds; its tag is the transfer's plus this.
constexpr int boxes = 0, moved = 1, sum = 2, result = 3, kinds = 4;

std::size_t packed_bytes(const std::vector<Piece>& pieces, std::size_t element_bytes) {
  std::int64_t n = 0;
  for (const Piece& p : pieces) n += element_count(p.extent);
  return static_cast<std::size_t>(n) * element_bytes;
}

std::vector<std::int64_t> to_numbers(const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> out;
  for (const Piece& p : pieces) {
    out.insert(out.end(), {static_cast<std::int64_t>(p.extent.size()), p.from_offset, p.to_offset});
    for (const Shape* s : {&p.extent, &p.from_strides, &p.to_strides})
      out.insert(out.end(), s->begin(), s->end());
  }
  return out;
}

std::vector<Piece> from_numbers(const std::vector<std::int64_t>& numbers) {
  std::vector<Piece> out;
  for (auto n = numbers.begin(); n != numbers.end();) {
    const std::int64_t dims = *n++;
    Piece& p = out.emplace_back();
    p.from_offset = *n++;
    p.to_offset = *n++;
    for (Shape* s : {&p.extent, &p.from_strides, &p.to_strides}) {
      s->assign(n, n + dims);
      n += dims;
    }
  }
  return out;
}

/// MPI counts in int.
template <class F>
void for_each_chunk(std::size_t bytes, F use) {
  constexpr std::size_t chunk = std::size_t{1} << 30;
  for (std::size_t begin = 0; begin < bytes; begin += chunk)
    use(begin, static_cast<int>(std::min(chunk, bytes - begin)));
}

/// Both return where the next piece begins among the packed.
std::byte* pack(const Piece& piece, const std::byte* from, std::byte* packed, std::size_t element_bytes) {
  for_each_run(piece, [&](std::int64_t f, std::int64_t, std::int64_t n) {
    const std::size_t bytes = static_cast<std::size_t>(n) * element_bytes;
    std::memcpy(packed, from + static_cast<std::size_t>(f) * element_bytes, bytes);
    packed += bytes;
  });
  return packed;
}

const std::byte* unpack(const Piece& piece, const std::byte* packed, std::byte* to,
                        std::size_t element_bytes) {
  for_each_run(piece, [&](std::int64_t, std::int64_t t, std::int64_t n) {
    const std::size_t bytes = static_cast<std::size_t>(n) * element_bytes;
    std::memcpy(to + static_cast<std::size_t>(t) * element_bytes, packed, bytes);
    packed += bytes;
  });
  return packed;
}

/// The operands of this host, reduced over the box.
void reduce_here(SharedPart& part, const Piece& box, std::byte* packed) {
  for_each_run(box, [&](std::int64_t f, std::int64_t, std::int64_t n) {
    part.reduce_run(f, packed, n);
    packed += static_cast<std::size_t>(n) * part.element_bytes;
  });
}

}  // namespace

bool Network::is_here(int member) const { return hosts[at(member)] == hosts[at(self)]; }

std::vector<std::byte> MessageBuffers::take(std::size_t bytes) {
  std::vector<std::vector<std::byte>>& fitting = free_[bytes];
  if (fitting.empty()) return std::vector<std::byte>(bytes);
  std::vector<std::byte> out = std::move(fitting.back());
  fitting.pop_back();
  return out;
}

void MessageBuffers::give_back(std::vector<std::byte>& buffer) {
  if (!buffer.empty()) free_[buffer.size()].push_back(std::exchange(buffer, {}));
}

NetworkTransfer::NetworkTransfer(Network& network, MessageBuffers& buffers, const Transfer& t,
                                 const SharedPart& part)
    : buffers_(&buffers), members_(network.members), self_(network.self), tag_(kinds * network.prepared++) {
  if (t.reduces)
    prepare_reduction(network, t, part);
  else
    prepare_move(network, t, part.element_bytes);
}

/// Sends each member of `out` its pieces, and receives pieces from each member of `in`.
void NetworkTransfer::exchange(const std::vector<Message>& out, std::vector<Message>& in,
                               std::size_t element_bytes) {
  std::vector<std::vector<std::int64_t>> numbers;
  for (const Message& m : out) numbers.push_back(to_numbers(m.pieces));
  for (std::size_t i = 0; i < out.size(); ++i)
    MPI_Isend(numbers[i].data(), static_cast<int>(numbers[i].size()), MPI_INT64_T, out[i].member,
              tag_ + boxes, members_, &requests_.emplace_back());
  for (Message& m : in) {
    MPI_Status status;
    int count = 0;
    MPI_Probe(m.member, tag_ + boxes, members_, &status);
    MPI_Get_count(&status, MPI_INT64_T, &count);
    std::vector<std::int64_t> received(at(count));
    MPI_Recv(received.data(), count, MPI_INT64_T, m.member, tag_ + boxes, members_, MPI_STATUS_IGNORE);
    m.pieces = from_numbers(received);
    m.size = packed_bytes(m.pieces, element_bytes);
  }
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
}

void NetworkTransfer::prepare_move(const Network& network, const Transfer& t, std::size_t element_bytes) {
  for (int q = 0; q < static_cast<int>(t.group.size()); ++q) {
    if (network.is_here(q)) continue;
    Message m{.member = q};
    for (const Piece& piece : t.pieces)
      if (piece.source == t.group[at(q)]) m.pieces.push_back(piece);
    m.size = packed_bytes(m.pieces, element_bytes);
    receives_.push_back(std::move(m));
    sends_.push_back({.member = q});
  }
  exchange(receives_, sends_, element_bytes);
  for (auto* messages : {&receives_, &sends_})
    std::erase_if(*messages, [](const Message& m) { return m.size == 0; });
}

void NetworkTransfer::prepare_reduction(const Network& network, const Transfer& t, const SharedPart& part) {
  wanted_ = t.pieces.front();
  if (t.kind == StepKind::all_reduce) {
    const Range range = cut(part.count, static_cast<std::int64_t>(t.group.size()), self_);
    wanted_ = {.from_offset = range.begin,
               .to_offset = range.begin,
               .extent = {range.end - range.begin},
               .from_strides = {1},
               .to_strides = {1}};
  }
  std::map<int, std::vector<int>> members;  // by host
  for (int q = 0; q < static_cast<int>(t.group.size()); ++q) members[network.hosts[at(q)]].push_back(q);
  const auto helper = [&](int host, int wanting) {
    const std::vector<int>& there = members[host];
    return there[at(wanting) % there.size()];
  };
  const int own = network.hosts[at(self_)];
  std::vector<Message> asked;
  for (const auto& [host, there] : members) {
    if (host == own) own_host_ = sums_.size();
    sums_.push_back({.member = host == own ? self_ : helper(host, self_),
                     .pieces = {wanted_},
                     .size = packed_bytes({wanted_}, part.element_bytes)});
    if (host != own) asked.push_back(sums_.back());
  }
  for (int q = 0; q < static_cast<int>(t.group.size()); ++q)
    if (!network.is_here(q) && helper(own, q) == self_) helped_.push_back({.member = q});
  exchange(asked, helped_, part.element_bytes);
  operands_.resize(sums_.size());
}

void NetworkTransfer::send(const std::vector<std::byte>& bytes, int member, int what) {
  for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
    partners_.push_back(member);
    MPI_Isend(bytes.data() + begin, count, MPI_BYTE, member, tag_ + what, members_,
              &requests_.emplace_back());
  });
}

void NetworkTransfer::receive(std::vector<std::byte>& bytes, int member, int what) {
  for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
    partners_.push_back(member);
    MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, member, tag_ + what, members_,
              &requests_.emplace_back());
  });
}

bool NetworkTransfer::have_come() {
  int all = 0;
  MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
  if (!all) return false;
  requests_.clear();
  partners_.clear();
  return true;
}

void NetworkTransfer::add_missing(std::vector<int>& out) const {
  for (std::size_t i = 0; i < partners_.size(); ++i) {
    int has_ended = 0;
    MPI_Request_get_status(requests_[i], &has_ended, MPI_STATUS_IGNORE);
    if (!has_ended) out.push_back(partners_[i]);
  }
}

void NetworkTransfer::start(const SharedPart& part) {
  stage_ = part.reduce ? Stage::opening : Stage::collecting;
  for (Message& m : receives_) {
    take_buffer(m);
    receive(m.bytes, m.member, moved);
  }
  for (Message& m : sends_) {
    take_buffer(m);
    std::byte* packed = m.bytes.data();
    for (const Piece& piece : m.pieces)
      packed = pack(piece, part.from[part.position], packed, part.element_bytes);
    send(m.bytes, m.member, moved);
  }
  for (Message& m : sums_) {
    take_buffer(m);
    if (m.member != self_) receive(m.bytes, m.member, sum);
  }
}

void NetworkTransfer::send_sums(SharedPart& part) {
  for (Message& m : helped_) {
    take_buffer(m);
    reduce_here(part, m.pieces.front(), m.bytes.data());
    send(m.bytes, m.member, sum);
  }
  reduce_here(part, wanted_, sums_[own_host_].bytes.data());
}

void NetworkTransfer::combine(SharedPart& part) {
  for (std::size_t i = 0; i < sums_.size(); ++i) operands_[i] = sums_[i].bytes.data();
  result_ = buffers_->take(sums_.front().size);
  part.reduce(operands_, result_.data(), static_cast<std::int64_t>(result_.size() / part.element_bytes));
  if (part.kind != StepKind::all_reduce) return;
  for (Message& m : helped_) receive(m.bytes, m.member, result);
  for (const Message& m : sums_)
    if (m.member != self_) send(result_, m.member, result);
  for (std::byte* to : part.to) unpack(wanted_, result_.data(), to, part.element_bytes);
}

bool NetworkTransfer::advance(SharedPart& part, bool has_opened) {
  if (stage_ == Stage::opening && has_opened) {
    send_sums(part);
    stage_ = Stage::collecting;
  }
  if (stage_ == Stage::collecting && have_come()) {
    if (part.reduce) combine(part);
    stage_ = Stage::returning;
  }
  if (stage_ == Stage::returning && have_come()) {
    if (part.kind == StepKind::all_reduce)
      for (const Message& m : helped_)
        for (std::byte* to : part.to) unpack(m.pieces.front(), m.bytes.data(), to, part.element_bytes);
    for (auto* messages : {&sends_, &sums_, &helped_})
      for (Message& m : *messages) buffers_->give_back(m.bytes);
    stage_ = Stage::done;
  }
  return stage_ == Stage::done;
}

void NetworkTransfer::finish(SharedPart& part) {
  std::byte* to = part.to[part.position];
  for (Message& m : receives_) {
    const std::byte* packed = m.bytes.data();
    for (const Piece& piece : m.pieces) packed = unpack(piece, packed, to, part.element_bytes);
    buffers_->give_back(m.bytes);
  }
  if (part.kind == StepKind::reduce_scatter) unpack(wanted_, result_.data(), to, part.element_bytes);
  buffers_->give_back(result_);
}

}  // namespace shardwright
