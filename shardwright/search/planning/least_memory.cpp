#include "shardwright/search/planning/least_memory.h"

#include <set>

namespace shardwright {

std::int64_t least_bytes(const Graph& step, int devices) {
  std::set<ValueId> counted;
  std::int64_t bytes = 0;
  for (const Update& u : step.updates) {
    if (!counted.insert(u.leaf).second) continue;
    const Type& type = step.value(u.leaf).type;
    bytes += element_count(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
  }
  return (bytes + devices - 1) / devices;
}

}  // namespace shardwright
