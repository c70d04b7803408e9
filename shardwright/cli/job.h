// A job on many devices: started, and started again from its last checkpoint when a rank or a host was lost.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/cli/launched_program.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/launch/assembly.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {

struct Restarts {
  int most = 0;
  bool is_elastic = false;  // without hosts that are lost, for as many devices as are left
};

struct Job {
  LaunchedProgram program;
  LaunchHosts hosts;
  std::vector<int> nodes;  // by rank, of hosts that have gathered
  int devices = 1;
  std::string log_folder = {};
  std::string timeout = {};             // for a verb of ours that says none, as said
  std::chrono::nanoseconds patience{};  // for hosts to be there
  Restarts restarts;
  Assembly* assembly = nullptr;  // null: hosts are reached by mpirun
};

/// Throws: Error if the job could not go on after a restart, or logs cannot be written.
void check(const Job& job);

/// Returns the exit status. The first rank's output is that of the terminal; without a folder for logs, or on hosts that
/// have gathered, that of other ranks goes to the terminal of their node, too.
int run(Job job, Terminal& terminal);

}  // namespace shardwright
