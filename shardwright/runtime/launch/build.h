// Which build of this program runs.
#pragma once

#include <string>

namespace shardwright {

/// What the linker has computed of all that it has put together: another one is another program. Empty where it did not.
std::string build_id();

}  // namespace shardwright
