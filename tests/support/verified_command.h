// Commands as tests run them: what they compile is verified after each pass, as everything else that tests compile.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cli/verb.h"

namespace shardwright::testing {

/// run_command, with --verify-passes where a program is compiled.
inline int run_verified(std::vector<std::string> words, Terminal& terminal) {
  for (const char* verb : {"plan", "lower", "estimate", "verify", "train"})
    if (!words.empty() && words.front() == verb) words.insert(words.begin() + 1, "--verify-passes");
  return run_command(words, terminal);
}

}  // namespace shardwright::testing
