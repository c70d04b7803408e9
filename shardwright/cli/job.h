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

/// Copies of the state with keepers (cli/survival.h).
struct SurvivalAsked {
  int hosts = 0;           // that may be lost
  std::string every = {};  // steps, as said; for a training that says none
};

struct Job {
  LaunchedProgram program;
  LaunchHosts hosts;
  std::vector<int> nodes;  // by rank, of hosts that have gathered
  std::vector<std::string> slots =
      {};  // hosts that have room for a rank, with those in use; empty: as `hosts`
  int devices = 1;
  std::string log_folder = {};
  std::string timeout = {};             // for a verb of ours that says none, as said
  std::chrono::nanoseconds patience{};  // for hosts to be there
  Restarts restarts;
  std::optional<SurvivalAsked> survival = {};
  Assembly* assembly = nullptr;  // null: hosts are reached by mpirun
};

/// At least this one.
int count_of_hosts(const LaunchHosts& hosts);

/// Throws: Error if the job could not go on after a restart, or logs cannot be written. `hosts`: how many it has.
void check(const Job& job, int hosts);

/// Returns the exit status. The first rank's output is that of the terminal; without a folder for logs, or on hosts that
/// have gathered, that of other ranks goes to the terminal of their node, too.
int run(Job job, Terminal& terminal);

}  // namespace shardwright
