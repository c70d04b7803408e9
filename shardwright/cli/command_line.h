// The words of a command line: which verb they ask, with what, or for what help.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/cli/verb.h"

namespace shardwright {

/// The verb called `name`. Throws: Error that lists them, or says what a model or a flag in its place should follow.
const Verb& verb_called(const std::string& name);

/// The words of a verb, itself in front, as its arguments; nothing if they ask for its help. Flags and what they do not
/// take as their value may stand in any order.
/// Throws: Error on flags that it does not have, with what may be meant, on values that are missing, or too many.
std::optional<Arguments> arguments_of(const Verb& verb, const std::vector<std::string>& words);

}  // namespace shardwright
