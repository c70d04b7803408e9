// Parameters and states from one session to another of the same run.
#pragma once

#include <string_view>

namespace shardwright {

class Session;

/// Gives `to` what `from` has under this name, whatever their plans, in the type in which `to` has it. Where every
/// process holds already what it needs, it copies that and asks nobody; else the whole is gathered. In a run of several
/// processes all of them call it at the same time. Throws: Error if one of the sessions has none of this name, or if
/// their shapes differ.
void hand_over(Session& to, const Session& from, std::string_view name);

}  // namespace shardwright
