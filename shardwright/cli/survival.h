// `--survive F`: copies of a training's state on so many hosts more than one, in memory, from which it goes on when hosts are
// lost. `launch` has the keepers (runtime/launch/keeper.h); here is what ranks do.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "shardwright/cli/prepare_training.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/checkpoint/recovered_state.h"
#include "shardwright/runtime/checkpoint/state_copies.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {

/// Of `train` and of `launch`, which hands its own on.
Flag survive_flag();
Flag survive_every_flag();
bool is_to_survive(const Arguments& arguments);
/// Throws: Error if it is asked for, and nobody has started keepers.
void check_survival(const Arguments& arguments);

/// Of one rank; all do the same at the same time, but where it says otherwise.
class Survival {
 public:
  explicit Survival(const Arguments& arguments);

  /// Looks for what a lost job has left. Throws: Error if there are too few hosts, on all ranks.
  void recover(MpiProcess& process);
  /// Nothing: it begins, or goes on from a disk.
  std::optional<Checkpoint> recovered() const;
  /// That each part of the state has its place, asking nobody. Throws: Error if this host has too little memory.
  void certify(const PreparedTraining& training);
  /// What it takes, and what it goes on from.
  void tell(const PreparedTraining& training, Terminal& terminal) const;
  /// What this host's ranks go on from is here then.
  void fetch(MpiProcess& process, PreparedTraining& training) const;
  /// `terminal` outlives it.
  std::unique_ptr<StateCopies> copies_of(Session& session, MpiProcess& process,
                                         const PreparedTraining& training, Terminal& terminal) const;
  /// What it has taken.
  void tell(const CopyFigures& figures, Terminal& terminal) const;

 private:
  int lost_hosts_;  // that it survives
  std::int64_t every_;
  bool is_json_;
  std::string keeper_;
  int rank_ = 0;
  std::vector<int> hosts_;  // by rank
  std::optional<RecoveredState> recovered_;
  std::vector<CopiedShard> shards_;
  CopyPrice price_;
};

}  // namespace shardwright
