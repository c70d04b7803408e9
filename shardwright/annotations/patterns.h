// Annotations of many operators at once: in `layers.*.norm1`, `*` stands for any one part of a name, or for what is
// missing of it, so that one line says how all layers are split.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Of each of `names` of which `keys` say something the key that counts: the name itself, or of patterns the one with the
/// fewest stars. Throws: Error where two say as much, or, if `all_count`, a key says nothing; `what` and `noun` are its words.
/// Cost: O(names * patterns).
std::map<std::string, std::string> said_by(const std::vector<std::string>& keys,
                                           const std::vector<std::string>& names, std::string_view what,
                                           std::string_view noun, bool all_count);

/// What patterns say of tensors, said of each operator and parameter that they match. A name says more than a pattern, and of two
/// patterns the one with fewer stars. Throws: Error where a pattern matches nothing, or two say as much of one name.
Constraints without_patterns(Constraints said, const Graph& graph);

}  // namespace shardwright
