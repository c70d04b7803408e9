// A name that there is not: what is near, and all that there are.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/error.h"

namespace shardwright {

/// `schedule 'fifo' does not exist; there are gpipe, 1f1b`, with the nearest where some are near.
Error unknown(std::string_view kind, std::string_view name, std::span<const std::string> known);

std::string lower(std::string_view text);

}  // namespace shardwright
