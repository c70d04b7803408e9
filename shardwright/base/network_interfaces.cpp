#include "shardwright/base/network_interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <memory>

namespace shardwright {
namespace {

std::uint32_t number_of(const sockaddr* address) {
  sockaddr_in out{};
  std::memcpy(&out, address, sizeof out);
  return out.sin_addr.s_addr;
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<NetworkInterface> out;
  for (const ifaddrs* i = first; i; i = i->ifa_next) {
    const bool is_up = (i->ifa_flags & IFF_UP) != 0;
    if (!is_up || !i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET) continue;
    out.push_back(
        {i->ifa_name, number_of(i->ifa_addr), number_of(i->ifa_netmask), (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return out;
}

std::string address_text(std::uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr number{address};
  return inet_ntop(AF_INET, &number, text.data(), text.size()) ? text.data() : "";
}

}  // namespace shardwright
