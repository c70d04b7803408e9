// The copies of a state that a lost job has left with the keepers of the hosts that are still there (state_copies.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/runtime/kept.h"

namespace shardwright {

class MpiProcess;

struct RecoveredState {
  std::string place;   // among those of a keeper
  std::string folder;  // that is it, on this host: a checkpoint with a manifest and some shards
  std::int64_t step = 0;
  std::vector<int> hosts = {};              // by rank
  std::vector<std::vector<bool>> has = {};  // by host and shard
};

/// The last that is whole on these hosts together; the same on all ranks. `keeper`: the folder of this host's. All processes ask at
/// the same time.
std::optional<RecoveredState> recovered_state(MpiProcess& process, const std::string& keeper);

/// Brings to each host what its ranks need of it and other hosts have. All processes do so at the same time.
/// Throws: Error of kind io if there is no memory for it; all ranks do.
void fetch(MpiProcess& process, const RecoveredState& state, const KeptValues& kept);

}  // namespace shardwright
