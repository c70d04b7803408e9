// The folder that a run's checkpoints stand in:
//
//   DIR/step-00000012/    whole: a checkpoint gets this name when all of it is on the disk
//   DIR/latest            a link to the last one
//   DIR/best              likewise, if the best one is kept
//   DIR/damaged-*         what a run could not go on from
//   DIR/.unfinished-*     being written, or left by a run that was killed
//
// A crash between any two calls leaves the earlier checkpoints, and `latest` with one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// The right to write to a folder, until it is destroyed or the process ends in whatever way.
class FolderLock {
 public:
  /// Makes the folder if there is none. Waits some seconds for a run that is about to end.
  /// Throws: Error of kind io if it cannot be written, or another run has it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  int descriptor_ = -1;
};

struct Checkpoint {
  std::string folder;
  std::int64_t step = 0;
};

/// Is itself one.
bool is_checkpoint(const std::string& folder);
/// Those in `folder`, those of more steps first; empty if there are none. `latest` may be one behind: a run that is killed
/// has given its last checkpoint a name, but not the link.
std::vector<Checkpoint> checkpoints_in(const std::string& folder);

/// Gives those of later steps another name, `damaged-step-00000007`: a run that could not go on from them will come to
/// their steps again.
void set_aside_later(const std::string& folder, std::int64_t step);

/// Where a checkpoint is written that will stand for `step`, and where then. All processes of a run work it out alike.
std::string unfinished_folder(const std::string& folder, std::int64_t step);
std::string finished_folder(const std::string& folder, std::int64_t step);

/// An empty folder of this name, and none left by others in `folder`.
void start_unfinished(const std::string& folder, std::int64_t step);
/// Gives it its name, and makes it the latest; an earlier one for this step is removed. All files in it are synced.
void finish(const std::string& folder, std::int64_t step);
void remove_unfinished(const std::string& folder, std::int64_t step) noexcept;
constexpr std::string_view latest_link = "latest", best_link = "best";
/// Makes the link called `name` lead to the checkpoint of `step`.
void link_to(const std::string& folder, const std::string& name, std::int64_t step);
/// Removes all but the last `keep` ones, and that which `best` leads to.
void remove_older(const std::string& folder, std::int64_t keep);

}  // namespace shardwright
