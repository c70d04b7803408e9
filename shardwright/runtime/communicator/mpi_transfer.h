// A transfer as one rank of MPI takes part in it: among the members on its host, and between hosts.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "shardwright/runtime/communicator/between_hosts.h"
#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {

struct MpiTransfer {
  SharedTransfer shared;                 // of the members on this host
  std::vector<NetworkTransfer> network;  // by part; none if all members are on this host
  std::vector<int> ranks;                // all members
  bool receives_for_others = false;      // on this host

  /// Whether something is left to be done at any time until it is finished.
  bool start() {
    shared.start();
    for (std::size_t i = 0; i < network.size(); ++i) network[i].start(shared.parts()[i]);
    return !network.empty() || shared.can_work_early();
  }

  /// Goes on as far as possible; true if only `finish` is left.
  bool advance() {
    const bool has_opened = shared.has_opened();
    if (network.empty()) {
      if (has_opened) shared.work();
      return has_opened;
    }
    bool is_done = has_opened;
    for (std::size_t i = 0; i < network.size(); ++i)
      is_done = network[i].advance(shared.parts()[i], has_opened) && is_done;
    return is_done;
  }

  /// Between hosts, once all messages have come.
  void finish() {
    for (std::size_t i = 0; i < network.size(); ++i) {
      SharedPart& part = shared.parts()[i];
      if (!part.reduce) work(part);
      network[i].finish(part);
    }
  }

  /// What has come for this rank and lies in the results of others.
  void take_from_others() {
    for (std::size_t i = 0; i < network.size(); ++i) network[i].take_from_others(shared.parts()[i]);
  }

  /// The members elsewhere of which messages have not come, or not gone.
  void add_missing_elsewhere(std::vector<int>& out) const {
    std::vector<int> members;
    for (const NetworkTransfer& t : network) t.add_missing(members);
    for (const int q : members) out.push_back(ranks[static_cast<std::size_t>(q)]);
  }
};

}  // namespace shardwright
