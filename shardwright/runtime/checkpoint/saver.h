// Saves the checkpoints of a session beside its training: a save takes a copy of what ranks hold, which is all that the
// training waits for, and threads of each process write it.
//
// In a run of several processes all of them call everything at the same time. When all have written, the first gives the
// checkpoint its name; a save that fails leaves the earlier ones as they are.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/manifest.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

struct SaveOptions {
  std::string folder;                   // of all checkpoints
  std::int64_t keep = 0;                // how many of them; 0: all
  std::string plan;                     // as JSON
  std::optional<FolderLock> lock = {};  // of the folder, if the first process has it already
};

/// What has become of a save.
struct Saved {
  std::string folder;
  std::int64_t step = 0;
  double pause_seconds = 0;  // that the training waited
  double seconds = 0;        // from its beginning until it was whole
  std::int64_t bytes = 0;
  std::string failure;  // why it is not there; empty: it is. Of another process: that it failed there
};

class CheckpointSaver {
 public:
  /// `session` outlives it. Throws: Error of kind io if the folder cannot be written, or another run saves there.
  CheckpointSaver(Session& session, SaveOptions options);
  /// What is not whole yet is lost.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Begins to save what the session holds behind `run.step` steps; `is_best`: and to call it the best. Waits for the
  /// save before it.
  void save(const RunState& run, bool is_best = false);
  /// Those that have ended since somebody asked; waits for nothing.
  std::vector<Saved> ended();
  /// Likewise, when all have.
  std::vector<Saved> wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
