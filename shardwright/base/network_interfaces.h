// The networks that this machine is in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright {

/// One that is up (IPv4), with its address and network in network byte order.
struct NetworkInterface {
  std::string name;
  std::uint32_t address = 0, mask = 0;
  bool is_loopback = false;
};

/// Empty if the system does not tell.
std::vector<NetworkInterface> network_interfaces();

/// `10.0.0.7`
std::string address_text(std::uint32_t address);

}  // namespace shardwright
