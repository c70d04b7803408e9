#include "shardwright/cli/difference_json.h"

namespace shardwright {

void add_difference(Json& document, const std::optional<StepDifference>& difference) {
  Json seconds, bytes;
  if (difference) {
    for (const auto& [name, part] : step_parts) seconds[std::string(name)] = difference->seconds.*part;
    for (std::size_t k = 0; k < memory_kinds; ++k)
      bytes[std::string(name_of(static_cast<MemoryKind>(k)))] = difference->bytes[k];
    bytes["arena"] = difference->arena_bytes;
  }
  document["difference_seconds"] = std::move(seconds);
  document["difference_bytes"] = std::move(bytes);
}

}  // namespace shardwright
