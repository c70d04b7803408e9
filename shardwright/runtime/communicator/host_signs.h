// Signs of life between hosts: each process sends what it shows to one process of every other host, which writes it into
// the memory that the ranks of its host share. One datagram a sign: nobody waits for any, and lost ones are followed by
// others. Where none ever arrives (a firewall), a rank is one whose signs are not seen.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

/// Where a process can be reached, and whose host it is on; as all processes tell each other.
struct SignAddress {
  std::array<std::uint32_t, 4> addresses{};  // of its host, as the network has them; 0: no more
  std::uint16_t port = 0;
  std::int32_t first = 0;  // rank on its host
  std::uint64_t run = 0;   // of rank 0: by what signs of other runs are told apart
  std::array<char, 64> host{};
};

class HostSigns {
 public:
  /// What comes of the others.
  struct Heard {
    std::function<Presence&(int rank)> presence;             // where it is written
    std::function<void(const std::string& failure)> failed;  // a rank elsewhere has said why the run ends
    std::function<void(int rank)> gone;                      // its process ends, and its host does not
  };

  /// Of rank `self`. Without the network it does nothing.
  explicit HostSigns(int self);
  ~HostSigns();
  HostSigns(const HostSigns&) = delete;
  HostSigns& operator=(const HostSigns&) = delete;

  SignAddress own(int first) const;
  /// By rank.
  void set(std::vector<SignAddress> all);
  bool has_others() const { return !firsts_.empty(); }
  std::string host_of(int rank) const;
  int first_of(int rank) const { return all_[static_cast<std::size_t>(rank)].first; }

  /// To the first rank of every other host. `failure`: why the run ends; empty: it goes on. It allocates nothing, and may be
  /// called in handlers of signals.
  void send(const Presence& own, const std::string& failure);
  /// What has come meanwhile.
  void receive(const Heard& heard);

 private:
  /// The first rank of another host.
  struct First {
    int rank = 0;
    int socket = -1;  // connected, so that a port that is closed is told
    bool is_refused = false, is_gone = false;
  };
  /// Of what was heard last, by rank.
  struct Raw {
    std::int64_t heard = 0, worked = 0;
    bool is_gone = false;
  };

  int self_;
  int socket_ = -1;  // receives
  std::uint16_t port_ = 0;
  std::vector<SignAddress> all_;
  std::vector<First> firsts_;
  std::vector<Raw> raw_;
};

}  // namespace shardwright
