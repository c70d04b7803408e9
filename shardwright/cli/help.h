// What there is to say, made of the table of verbs.
#pragma once

#include <string>

#include "shardwright/cli/verb.h"

namespace shardwright {

/// Of the program: its verbs, and where to begin.
std::string overview();
/// Of a verb: examples, and its flags by what they are about.
std::string help_of(const Verb& verb);

}  // namespace shardwright
