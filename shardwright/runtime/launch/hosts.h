// On which hosts the ranks of a job run: files that say so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// More than any job has: what is written is a mistake.
constexpr int most_launched_ranks = 1 << 16;

/// A machine, as others reach it, and how many ranks it takes.
struct Host {
  std::string name;
  int slots = 1;
};

/// Open MPI's host files: `NAME slots=N` a line, behind `#` remarks. A host that stands there twice has the slots of both.
/// `path` is what errors call it.
/// Throws: Error that names the line.
std::vector<Host> parse_hosts(std::string_view text, const std::string& path);
std::vector<Host> read_hosts(const std::string& path);

int slots_of(const std::vector<Host>& hosts);

/// By rank its host; one host is filled behind the other. Throws: Error if there are more ranks than slots: `asked` and
/// `from` are what it calls the two.
std::vector<std::string> hosts_of_ranks(const std::vector<Host>& hosts, int ranks, std::string_view asked,
                                        std::string_view from);

/// MindSpore's rank tables (version 1.0): by rank its host.
/// Throws: Error that names what is missing or twice.
std::vector<std::string> parse_rank_table(std::string_view text, const std::string& path);
std::vector<std::string> read_rank_table(const std::string& path);

/// Of this machine: its own name, or an address of it.
bool is_here(const std::string& host);

/// Names of its network interfaces that are up, and their addresses (IPv4).
struct Interface {
  std::string name, address;
};
std::vector<Interface> own_interfaces();

/// Throws: Error unless `net` is one of them, or a network that one of them is in (`10.0.0.0/24`).
void check_net(const std::string& net);

}  // namespace shardwright
