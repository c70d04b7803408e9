// What `launch` starts on many devices: a verb of this program, or another program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/cli/verb.h"

namespace shardwright {

struct LaunchedProgram {
  std::vector<std::string> words;      // as said
  std::optional<Arguments> arguments;  // of a verb, complete
  std::optional<int> devices;          // that the words say

  bool is_training() const { return arguments && words.front() == "train"; }
  /// Where it keeps checkpoints; empty: nowhere.
  std::string checkpoints() const;
  bool prints_json() const;
  /// The network that it says; empty: none.
  std::string net() const;
  /// How many hosts it survives, if that is asked for.
  std::optional<int> survives() const;
};

/// Throws: Error if there is no such program or verb, or the verb does not run as many processes; and as reading the
/// verb's arguments does.
LaunchedProgram launched_program(const std::vector<std::string>& words);

/// How a job is begun, the first time and again.
struct Beginning {
  int devices = 1;
  bool is_planned_anew = false;      // what fixes the plan for other devices is left out
  bool resumes = false;              // from the last checkpoint
  std::string timeout = {};          // for a verb that says none
  std::optional<int> survives = {};  // hosts, as many as may be lost now
  std::string survive_every = {};    // for a training that says none
};
/// The words for each rank, with the program's path in front.
std::vector<std::string> command_of(const LaunchedProgram& program, const Beginning& beginning);

/// Flags with their values that `is_planned_anew` leaves out, as said: `--plan p.json`.
std::vector<std::string> left_out_flags(const LaunchedProgram& program);

}  // namespace shardwright
