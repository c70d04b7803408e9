// Annotations of many operators at once: in `layers.*.norm1`, `*` stands for any one part of a name, or for what is
// missing of it, so that one line says how all layers are split.
#pragma once

#include <string_view>

#include "shardwright/plan/annotations.h"

namespace shardwright {

/// Whether `*` occurs in `name`.
bool is_pattern(std::string_view name);

/// `*` stands for any characters but dots.
bool matches(std::string_view pattern, std::string_view name);

/// What patterns say, said of each operator and parameter that they match. A name says more than a pattern, and of two
/// patterns the one with fewer stars. Throws: Error where a pattern matches nothing, or two say as much of one name.
Annotations without_patterns(const Annotations& annotations, const Graph& graph);

}  // namespace shardwright
