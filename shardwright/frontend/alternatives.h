// What a search has looked at beside its plan, for people: what binds the plan, and the best that lost.
#pragma once

#include <string>
#include <vector>

#include "shardwright/explain/binding.h"

namespace shardwright {

/// As a user asks for it; `flag` is empty where none says it.
struct Wording {
  std::string flag, text;
};
Wording wording_of(const Tried& tried);

/// Those that lost, the best first: what fits before what does not, then what programs say, then the fastest.
std::vector<Tried> that_lost(std::vector<Tried> tried);

/// The command that prices what else could be fixed, for a plan in a file.
std::string command_of(const Binding& binding);

/// `binding: memory: --set dp=8,.. takes 7.5 s but 91.2 GB, 7.3 GB more than there is`, and the best three that lost with their prices, a line each.
std::string text_of(const Bound& bound, const Evaluation& evaluation);

}  // namespace shardwright
