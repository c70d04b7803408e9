// What Open MPI leaves on a host while a job runs: sessions and shared memory, in two folders with the job's name, so that
// nothing stays behind, whatever ends the job.
#pragma once

#include <optional>
#include <string>

#include "shardwright/runtime/launch/sweeper.h"

namespace shardwright {

class JobFolder {
 public:
  /// Makes both on this host, and removes those of jobs whose launcher was killed.
  /// Throws: Error of kind io if that cannot be.
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  /// For sessions, and whatever else the job needs a file for; only this user reads it.
  const std::string& path() const { return path_; }
  const std::string& shared_memory() const { return shared_memory_; }

 private:
  std::string path_, shared_memory_;
  int lock_ = -1;
  std::optional<Sweeper> sweeper_;
};

/// The folder of shared memory that goes with one of sessions.
std::string shared_memory_of(const std::string& job_folder);

/// `command` for another host's shell: makes the folders of the job there, and removes what it has left in them.
std::string within_job(const std::string& command, const std::string& job_folder);

}  // namespace shardwright
