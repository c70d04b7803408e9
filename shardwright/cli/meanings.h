// What is meant by a flag that a verb does not have: words of other tools, words of --fix, and slips of the hand.
#pragma once

#include <string>
#include <string_view>

namespace shardwright {

struct Verb;

/// ` (did you mean --fix tp=8?)` for `--tp` with the value `8`, or nothing. Only flags of `verb` are named.
std::string meant_by(std::string_view flag, std::string_view value, const Verb& verb);

}  // namespace shardwright
