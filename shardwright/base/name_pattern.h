// Patterns of names: in `layers.*.norm1`, `*` stands for any one part of a name, or for what is missing of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// Whether `*` occurs in `name`.
bool is_pattern(std::string_view name);

/// `*` stands for any characters but dots.
bool matches(std::string_view pattern, std::string_view name);

/// `layers.0`, .., `layers.11` of `layers.0-11`; all else is itself. At most 65536 names.
std::vector<std::string> names_of_range(std::string_view name);

}  // namespace shardwright
