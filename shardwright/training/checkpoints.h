// What a training does with checkpoints: where it saves, how often, what it goes on from or starts with.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/plan/plan.h"
#include "shardwright/runtime/checkpoint/reader.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/training/called.h"

namespace shardwright {

/// As they were asked for.
struct CheckpointOptions {
  std::optional<std::string> save = {};  // a folder: at the end, and when interrupted
  std::int64_t save_every = 0;           // also behind so many steps; 0: only at the end
  std::int64_t keep = 0;                 // the last so many; 0: all
  std::optional<std::string> resume =
      {};  // a checkpoint or the folder of a run to go on from; auto: that of `save`
  std::optional<std::string> init = {};  // a checkpoint whose weights it starts with, if it is a folder
  /// What no checkpoint has, parameters that are frozen, comes from `init` where a run goes on, too.
  bool has_frozen = false;
  /// Copies of the state that a lost job has left in memory (runtime/checkpoint/recovered_state.h): a folder, and the step. A run goes
  /// on from them unless `save` has a later checkpoint.
  std::optional<Checkpoint> copies = {};
  Door door = Door::code;
};

/// What they lead to; the same in all processes of a run.
struct CheckpointPlans {
  std::string folder;      // where to save; empty: nowhere
  std::int64_t every = 0;  // steps; 0: only at the end
  std::int64_t keep = 0;
  std::optional<FolderLock> lock = {};  // of the folder, where it was there before; of the first process
  std::vector<CheckpointReader> resume = {};  // to go on from: the first that is whole
  bool resumes_from_copies = false;           // in memory, of this run
  std::optional<CheckpointReader> init = {};  // to start with the weights of
  Door door = Door::code;

  /// Of what goes on.
  const RunState* resumed() const { return resume.empty() ? nullptr : &resume.front().manifest().run; }
};

/// The right to save where the folder is there already, which the first process takes. Before anything there is looked at,
/// by any process: another run may be about to end, and to remove what is there.
/// Throws: Error if another run has it.
std::optional<FolderLock> lock_of_run(const CheckpointOptions& options);

/// Throws: Error if options contradict each other, what they name is no checkpoint, or saving would mix the checkpoints of
/// two runs. Notices tell of checkpoints that are damaged where an earlier one is whole.
CheckpointPlans checkpoint_plans(const CheckpointOptions& options, std::optional<FolderLock> lock,
                                 std::ostream& notices);

/// Brings the session to where the run left off, or to the weights that it starts with, and returns how many steps have
/// been done; checkpoints that turn out to be damaged are taken out of `plans`. All processes do so at the same time.
/// Throws: Error if nothing whole is left.
std::int64_t restore(Session& session, CheckpointPlans& plans,
                     const std::function<void(std::string)>& notice);

/// Some elements of each frozen parameter as one text: two runs with other ones are told apart, whatever their plans. Empty: none is
/// frozen. All processes ask at the same time.
std::string sample_of_frozen(const Session& session);
/// Throws: Error if the run, whose checkpoint is at `path`, stood beside other parameters than are frozen in the session. In
/// another type they cannot be compared.
void check_frozen(const Session& session, const RunState& run, const std::string& path);

/// A run that goes on has the seed that it began with, others 1. Throws: Error if another is asked for.
std::uint64_t seed_of(std::optional<std::uint64_t> asked, const CheckpointPlans& checkpoints);
/// Throws: Error if a run cannot go on with batches of so many samples.
void check_batch(const CheckpointPlans& checkpoints, std::int64_t samples);
/// Throws: Error if it cannot go on with sequences of these lengths, as in 64,128 (empty: one): they order its data, too.
void check_lengths(const CheckpointPlans& checkpoints, const std::string& lengths);
/// What a run goes on with otherwise than the one before: the user may want that, or may have mistyped.
void tell_changes(const CheckpointPlans& checkpoints, const std::string& model, const Origin& origin,
                  const std::string& schedule, std::ostream& notices);

/// The saving of one run; where there is none, nothing happens.
class Saving {
 public:
  using OnSaved = std::function<void(const Saved&)>;
  /// Takes the lock of `plans`. `on_saved` hears of what is whole on the disk, or could not be written.
  Saving(Session& session, CheckpointPlans& plans, const std::string& plan, OnSaved on_saved);

  /// `run.step` steps have been done, in all processes; `is_best`: and nothing was better than what they have led to.
  void behind(const RunState& run, bool is_best);
  /// The run ends here: saves what has been done, unless it is saved, and waits until all is on the disk.
  /// Throws: Error of kind io if the last save has failed.
  void end(const RunState& run);
  /// `saved in run1/step-00000012`, or that nothing is.
  std::string saved_text() const;

 private:
  void save(const RunState& run, bool is_best);
  void tell(const std::vector<Saved>& ended);

  OnSaved on_saved_;
  std::int64_t every_ = 0;
  std::int64_t last_ = -1;  // that was begun
  std::string failure_;     // of the last that has ended
  std::string last_saved_;
  std::optional<CheckpointSaver> saver_;
};

}  // namespace shardwright
