// Annotations of many operators at once: in `layers.*.norm1`, `*` stands for any one part of a name, or for what is
// missing of it, so that one line says how all layers are split.
#pragma once

#include "shardwright/annotations/annotations.h"

namespace shardwright {

/// What patterns say, said of each operator and parameter that they match. A name says more than a pattern, and of two
/// patterns the one with fewer stars. Throws: Error where a pattern matches nothing, or two say as much of one name.
Annotations without_patterns(const Annotations& annotations, const Graph& graph);

}  // namespace shardwright
