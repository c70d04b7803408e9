// What this machine calls itself.
#pragma once

#include <string>

namespace shardwright {

std::string host_name();

}  // namespace shardwright
