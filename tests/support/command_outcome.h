// A command, run in this process, and what it has told.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "shardwright/cli/verb.h"

namespace shardwright::testing {

struct CommandOutcome {
  int status = 0;
  std::string out, err;
  nlohmann::ordered_json document() const { return nlohmann::ordered_json::parse(out); }
};

/// `words`, and `more` behind them.
inline std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline CommandOutcome outcome_of(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = run_command(words, terminal);
  return {status, out.str(), err.str()};
}

}  // namespace shardwright::testing
