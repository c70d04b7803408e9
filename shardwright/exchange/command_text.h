// Flags in a text that somebody starts a training with: a script of a shell, or a list of flags. Comments are left out,
// names of variables that the text sets are replaced, and what stands in front of the first flag is somebody else's.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct CommandFlag {
  std::string name;                 // without `--`, with dashes inside: `num-layers`
  std::vector<std::string> values;  // up to the next flag
};

/// In their order. Values that name variables which the text does not set stay as they are written, with `$`.
std::vector<CommandFlag> flags_in(std::string_view text);

}  // namespace shardwright
