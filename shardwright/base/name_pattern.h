// Patterns of names: in `layers.*.norm1`, `*` stands for any one part of a name, or for what is missing of it.
#pragma once

#include <string_view>

namespace shardwright {

/// Whether `*` occurs in `name`.
bool is_pattern(std::string_view name);

/// `*` stands for any characters but dots.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace shardwright
