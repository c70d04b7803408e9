#include "shardwright/runtime/communicator/host_signs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "shardwright/base/host_name.h"
#include "shardwright/base/index.h"
#include "shardwright/base/network_interfaces.h"

namespace shardwright {
namespace {

/// A datagram. All hosts of a run have the same program, and so the same types.
struct Sign {
  std::uint64_t run = 0;
  std::int32_t rank = 0;
  std::int8_t signal = 0;
  bool waits = false, ends = false, has_failed = false;
  std::int64_t now = 0, heard = 0, worked = 0;  // of the sender's clock
  std::uint64_t acts = 0, where = 0, what = 0;
  std::array<char, 400> failure{};
};

/// Those of this host that lead to others.
std::vector<NetworkInterface> interfaces() {
  std::vector<NetworkInterface> out = network_interfaces();
  std::erase_if(out, [](const NetworkInterface& i) { return i.is_loopback; });
  return out;
}

/// The address that lies in a network of this host; else the first.
std::uint32_t reachable(const SignAddress& there) {
  for (const NetworkInterface& own : interfaces())
    for (std::uint32_t address : there.addresses)
      if (address != 0 && ((address ^ own.address) & own.mask) == 0) return address;
  return there.addresses.front();
}

int datagram_socket() { return ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

sockaddr_in named(std::uint32_t address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = address;
  out.sin_port = htons(port);
  return out;
}

const sockaddr* plain(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

}  // namespace

HostSigns::HostSigns(int self) : self_(self), socket_(datagram_socket()) {
  if (socket_ < 0) return;
  sockaddr_in own = named(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof own;
  if (::bind(socket_, plain(own), sizeof own) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return;
  port_ = ntohs(own.sin_port);
}

HostSigns::~HostSigns() {
  if (socket_ >= 0) ::close(socket_);
  for (const First& f : firsts_)
    if (f.socket >= 0) ::close(f.socket);
}

SignAddress HostSigns::own(int first) const {
  SignAddress out{.port = port_, .first = first};
  const std::vector<NetworkInterface> all = interfaces();
  for (std::size_t i = 0; i < std::min(all.size(), out.addresses.size()); ++i)
    out.addresses[i] = all[i].address;
  out.run = static_cast<std::uint64_t>(machine_time()) ^ static_cast<std::uint64_t>(::getpid()) << 40;
  host_name().copy(out.host.data(), out.host.size() - 1);
  return out;
}

void HostSigns::set(std::vector<SignAddress> all) {
  all_ = std::move(all);
  raw_.assign(all_.size(), {});
  for (std::size_t r = 0; r < all_.size(); ++r) {
    const SignAddress& there = all_[r];
    if (there.first != static_cast<int>(r) || there.first == all_[at(self_)].first) continue;
    const std::uint32_t address = reachable(there);
    if (address == 0 || there.port == 0) continue;
    First& f = firsts_.emplace_back(First{.rank = static_cast<int>(r), .socket = datagram_socket()});
    const sockaddr_in to = named(address, there.port);
    if (f.socket < 0 || ::connect(f.socket, plain(to), sizeof to) != 0) f.is_gone = true;
  }
}

std::string HostSigns::host_of(int rank) const {
  return at(rank) < all_.size() ? std::string(all_[at(rank)].host.data()) : host_name();
}

void HostSigns::send(const Presence& own, const std::string& failure) {
  Sign sign{.run = all_.empty() ? 0 : all_.front().run,
            .rank = self_,
            .signal = own.signal,
            .waits = own.waits,
            .ends = own.ends,
            .has_failed = !failure.empty(),
            .now = machine_time(),
            .heard = own.heard,
            .worked = own.worked,
            .acts = own.acts,
            .where = own.where,
            .what = own.what};
  failure.copy(sign.failure.data(), sign.failure.size() - 1);
  for (First& f : firsts_)
    if (!f.is_gone && ::send(f.socket, &sign, sizeof sign, MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED)
      f.is_refused = true;
}

void HostSigns::receive(const Heard& heard) {
  Sign sign;
  while (socket_ >= 0 && ::recv(socket_, &sign, sizeof sign, 0) == sizeof sign) {
    const bool is_ours = !all_.empty() && sign.run == all_.front().run && sign.rank >= 0 &&
                         at(sign.rank) < all_.size() && all_[at(sign.rank)].first != all_[at(self_)].first;
    if (!is_ours) continue;
    Presence& p = heard.presence(sign.rank);
    Raw& raw = raw_[at(sign.rank)];
    const std::int64_t now = machine_time();
    if (std::exchange(raw.heard, sign.heard) != sign.heard) p.heard = now - (sign.now - sign.heard);
    if (std::exchange(raw.worked, sign.worked) != sign.worked) p.worked = now - (sign.now - sign.worked);
    p.beat = now;
    p.acts = sign.acts;
    p.where = sign.where;
    p.what = sign.what;
    p.signal = sign.signal;
    p.waits = sign.waits;
    p.ends = sign.ends;
    sign.failure.back() = 0;
    if (sign.has_failed) heard.failed(sign.failure.data());
    if (sign.signal != 0 && !std::exchange(raw.is_gone, true)) heard.gone(sign.rank);
  }
  for (First& f : firsts_) {
    int error = 0;
    socklen_t length = sizeof error;
    if (f.is_gone) continue;
    ::getsockopt(f.socket, SOL_SOCKET, SO_ERROR, &error, &length);
    if (!f.is_refused && error != ECONNREFUSED) continue;
    f.is_gone = true;
    if (!std::exchange(raw_[at(f.rank)].is_gone, true)) heard.gone(f.rank);
  }
}

}  // namespace shardwright
