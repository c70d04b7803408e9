#include "shardwright/runtime/launch/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "shardwright/base/file.h"
#include "shardwright/base/host_name.h"
#include "shardwright/base/index.h"
#include "shardwright/base/network_interfaces.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::optional<int> count_in(std::string_view text, int least, int most) {
  const auto number = to_integer(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == line.npos) break;
    at = std::min(line.find_first_of(" \t\r", begin), line.size());
    out.push_back(line.substr(begin, at - begin));
  }
  return out;
}

/// A name of a host or an address, and nothing that a shell or mpirun would read otherwise.
bool is_host_name(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
}

Host host_of(const std::vector<std::string_view>& words, const std::string& place) {
  Host out{std::string(words[0])};
  if (!is_host_name(words[0])) throw error("{}: '{}' is no host's name", place, words[0]);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string_view key = words[i].substr(0, equals);
    const bool is_slots = key == "slots";
    // Open MPI knows it, too: as many as may be started there at all.
    if (equals == words[i].npos || (!is_slots && key != "max_slots" && key != "max-slots"))
      throw error("{}: '{}' is unknown behind a host; a line is NAME slots=N", place, words[i]);
    const auto slots = count_in(words[i].substr(equals + 1), 1, most_launched_ranks);
    if (!slots) throw error("{}: '{}' should be a number from 1 to {}", place, words[i], most_launched_ranks);
    if (is_slots) out.slots = *slots;
  }
  return out;
}

std::vector<Interface> interfaces(bool has_loopback) {
  std::vector<Interface> out;
  for (const NetworkInterface& each : network_interfaces())
    if (has_loopback || !each.is_loopback) out.push_back({each.name, address_text(each.address)});
  return out;
}

/// The addresses that a name stands for.
std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo wanted{}, *first = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &first) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(first, freeaddrinfo);
  std::vector<std::string> out;
  for (const addrinfo* each = first; each; each = each->ai_next) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ai_addr);
    out.push_back(address_text(address->sin_addr.s_addr));
  }
  return out;
}

/// `10.0.0.7` lies in `10.0.0.0/24`; nothing if this is no network.
std::optional<bool> lies_in(const std::string& address, std::string_view net) {
  const std::size_t slash = net.find('/');
  if (slash == net.npos) return std::nullopt;
  const auto bits = count_in(net.substr(slash + 1), 1, 32);
  in_addr own{}, other{};
  if (!bits || inet_pton(AF_INET, std::string(net.substr(0, slash)).c_str(), &other) != 1 ||
      inet_pton(AF_INET, address.c_str(), &own) != 1)
    return std::nullopt;
  const std::uint32_t mask = ~std::uint32_t{0} << (32 - *bits);
  return ((ntohl(own.s_addr) ^ ntohl(other.s_addr)) & mask) == 0;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& path) {
  std::vector<Host> out;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    const std::vector<std::string_view> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const Host host = host_of(words, fmt::format("{}:{}", path, number));
    const auto same = std::ranges::find(out, host.name, &Host::name);
    if (same == out.end())
      out.push_back(host);
    else
      same->slots += host.slots;
    if (slots_of(out) > most_launched_ranks)
      throw error("{}:{}: more than {} slots", path, number, most_launched_ranks);
  }
  if (out.empty()) throw error("{}: names no host; a line is NAME slots=N", path);
  return out;
}

std::vector<Host> read_hosts(const std::string& path) {
  return parse_hosts(read_text(path, most_settings_bytes), path);
}

int slots_of(const std::vector<Host>& hosts) {
  int out = 0;
  for (const Host& host : hosts) out += host.slots;
  return out;
}

std::vector<std::string> hosts_of_ranks(const std::vector<Host>& hosts, int ranks, std::string_view asked,
                                        std::string_view from) {
  if (const int slots = slots_of(hosts); ranks > slots)
    throw error("{} but {} has {} slot{} on {} host{}", asked, from, slots, slots == 1 ? "" : "s",
                hosts.size(), hosts.size() == 1 ? "" : "s");
  std::vector<std::string> out;
  for (const Host& host : hosts)
    for (int i = 0; i < host.slots && static_cast<int>(out.size()) < ranks; ++i) out.push_back(host.name);
  return out;
}

std::vector<std::string> read_rank_table(const std::string& path) {
  return parse_rank_table(read_text(path, most_settings_bytes), path);
}

bool is_here(const std::string& host) {
  if (host == "localhost" || host == host_name()) return true;
  const std::vector<Interface> own = interfaces(true);
  for (const std::string& address : addresses_of(host))
    if (address.starts_with("127.") || std::ranges::find(own, address, &Interface::address) != own.end())
      return true;
  return false;
}

std::vector<Interface> own_interfaces() { return interfaces(false); }

void check_net(const std::string& net) {
  std::vector<std::string> there;
  for (const Interface& each : interfaces(true)) {
    if (each.name == net || lies_in(each.address, net).value_or(false)) return;
    there.push_back(fmt::format("{} ({})", each.name, each.address));
  }
  throw error("--net {}: is no network of this host; there are {}", net,
              there.empty() ? "none" : join(there, ", "));
}

}  // namespace shardwright
