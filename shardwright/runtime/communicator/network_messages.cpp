#include "shardwright/runtime/communicator/network_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"

namespace shardwright {
namespace {

constexpr int kinds = 4;

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

/// MPI counts in int, and Open MPI has a link do more with several messages than with a large one.
template <class F>
void for_each_chunk(std::size_t bytes, F use) {
  constexpr std::size_t least = std::size_t{1} << 20, most = std::size_t{1} << 30, usual = 64;
  const std::size_t chunk = std::clamp(bytes / usual, least, most);
  for (std::size_t begin = 0; begin < bytes; begin += chunk)
    use(begin, static_cast<int>(std::min(chunk, bytes - begin)));
}

}  // namespace

bool Network::is_here(int member) const { return hosts[at(member)] == hosts[at(self)]; }

MembersByHost::MembersByHost(const Network& network) {
  std::map<int, std::vector<int>> by_number;
  for (std::size_t q = 0; q < network.hosts.size(); ++q)
    by_number[network.hosts[q]].push_back(static_cast<int>(q));
  host_of.resize(network.hosts.size());
  for (auto& [number, there] : by_number) {
    for (const int q : there) host_of[at(q)] = members.size();
    members.push_back(std::move(there));
  }
  own = host_of[at(network.self)];
}

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

Messages::Messages(Network& network, int numbers)
    : members_(network.members), first_(std::exchange(network.prepared, network.prepared + numbers)) {
  const int* most = nullptr;
  int is_known = 0;
  MPI_Comm_get_attr(members_, MPI_TAG_UB, static_cast<void*>(&most), &is_known);
  if (is_known && network.prepared > *most / kinds)
    throw error("a group of {} ranks has more transfers than MPI has tags ({})", network.hosts.size(), *most);
}

int Messages::tag(MessageKind kind, int number) const {
  return kinds * (first_ + number) + static_cast<int>(kind);
}

void Messages::send(std::span<const std::byte> bytes, int member, MessageKind kind, int number) {
  for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
    partners_.push_back(member);
    MPI_Isend(bytes.data() + begin, count, MPI_BYTE, member, tag(kind, number), members_,
              &requests_.emplace_back());
  });
}

void Messages::receive(std::span<std::byte> bytes, int member, MessageKind kind, int number) {
  for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
    partners_.push_back(member);
    MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, member, tag(kind, number), members_,
              &requests_.emplace_back());
  });
}

bool Messages::have_come() {
  int all = 0;
  MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
  if (!all) return false;
  requests_.clear();
  partners_.clear();
  return true;
}

void Messages::add_missing(std::vector<int>& out) const {
  for (std::size_t i = 0; i < partners_.size(); ++i) {
    int has_ended = 0;
    MPI_Request_get_status(requests_[i], &has_ended, MPI_STATUS_IGNORE);
    if (!has_ended) out.push_back(partners_[i]);
  }
}

std::vector<std::vector<Piece>> Messages::exchange(const std::vector<std::pair<int, std::vector<Piece>>>& out,
                                                   const std::vector<int>& in) {
  std::vector<std::vector<std::int64_t>> numbers;
  for (const auto& [member, pieces] : out) numbers.push_back(to_numbers(pieces));
  std::vector<MPI_Request> requests(out.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    MPI_Isend(numbers[i].data(), static_cast<int>(numbers[i].size()), MPI_INT64_T, out[i].first,
              tag(MessageKind::boxes, 0), members_, &requests[i]);
  std::vector<std::vector<Piece>> wanted;
  for (const int member : in) {
    MPI_Status status;
    int count = 0;
    MPI_Probe(member, tag(MessageKind::boxes, 0), members_, &status);
    MPI_Get_count(&status, MPI_INT64_T, &count);
    std::vector<std::int64_t> received(at(count));
    MPI_Recv(received.data(), count, MPI_INT64_T, member, tag(MessageKind::boxes, 0), members_,
             MPI_STATUS_IGNORE);
    wanted.push_back(from_numbers(received));
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return wanted;
}

std::size_t packed_bytes(const std::vector<Piece>& pieces, std::size_t element_bytes) {
  std::int64_t n = 0;
  for (const Piece& p : pieces) n += element_count(p.extent);
  return static_cast<std::size_t>(n) * element_bytes;
}

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

}  // namespace shardwright
