// Copies of a training's state in the memory of several hosts, beside the training: what a job goes on from when hosts are
// lost, without a disk.
//
// Behind a step each rank puts parts of what it holds into files of its host's keeper (launch/keeper.h), whose memory outlives
// the job; ranks of other hosts get theirs by MPI, while training goes on. A save counts only when it is whole on all hosts:
// there are two places that saves take in turn, and the manifest of one is written when all have all of it, so that the one
// before is whole until then. What stands there is a checkpoint, of which a host has some shards.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/copy_places.h"
#include "shardwright/runtime/checkpoint/manifest.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

class MpiProcess;

struct CopyOptions {
  std::string folder;  // of the keeper on this host
  std::string resumed =
      {};                  // the place there that the run goes on from, which the first save leaves as it is
  std::vector<int> hosts;  // by rank
  std::vector<CopiedShard> shards;
  std::string plan;        // as JSON
  std::int64_t every = 1;  // steps
  std::function<void(std::string)> notice;
};

/// What saves have taken.
struct CopyFigures {
  std::int64_t saves = 0;
  double pause_seconds = 0;  // that training waited, of all
  double seconds = 0;        // from the beginning until they were whole, of all
};

class StateCopies {
 public:
  /// All processes make theirs; `session` and `process` outlive it.
  StateCopies(Session& session, MpiProcess& process, CopyOptions options);
  /// A save that is not whole yet is lost.
  ~StateCopies();
  StateCopies(const StateCopies&) = delete;
  StateCopies& operator=(const StateCopies&) = delete;

  /// `run.step` steps have been done, in all processes. Goes on with the last save, and begins one where it is time.
  void behind(const RunState& run);
  /// The run ends: nothing is on its way any more.
  void end();
  const CopyFigures& figures() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// In a keeper's folder, taken in turn.
constexpr std::array<const char*, 2> copy_places{"a", "b"};

}  // namespace shardwright
