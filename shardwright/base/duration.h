// Times as people write them.
#pragma once

#include "shardwright/base/given.h"

namespace shardwright {

/// Of `10s`, `50ms` or `2.5`. Throws: Error if it is no time above 0.
double seconds_of(const Given& given);

}  // namespace shardwright
