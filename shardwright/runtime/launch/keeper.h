// Who keeps copies of a training's state on a host, in memory, from job to job: a process outside of the MPI job with a
// folder that is memory. The launcher and the nodes that have gathered are keepers of their own hosts; on others that are
// reached by a remote shell one is started. A keeper ends with its launcher, and its folder with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/runtime/launch/sweeper.h"

namespace shardwright {

/// Ranks find in it what their keeper is called.
constexpr const char* variable_of_keeper = "SHARDWRIGHT_KEEPER";

/// A name for the keepers of one launch.
std::string new_keeper_name();
/// On this host, of the keeper of this name.
std::string keeper_folder(const std::string& name);

class KeptFolder {
 public:
  /// Empty, unless another process keeps it, as one node of several on a host does.
  /// Throws: Error of kind io if this host has no memory that is a folder.
  explicit KeptFolder(const std::string& name);
  ~KeptFolder();
  KeptFolder(const KeptFolder&) = delete;
  KeptFolder& operator=(const KeptFolder&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_, path_;
  int lock_ = -1;
  std::optional<Sweeper> sweeper_;  // where it is this process that keeps it
};

/// The first word of a keeper's command line; nobody but a launcher says it.
constexpr const char* keeper_word = "--keeper-of-launch";
/// What it says when it keeps the folder, and then now and then: a byte.
constexpr std::string_view keeper_is_there = "shardwright keeps copies\n";

/// `words`: its name, and for how many seconds it stays without a sign of the launcher's life. Returns the exit status.
int run_keeper(const std::vector<std::string>& words);

}  // namespace shardwright
