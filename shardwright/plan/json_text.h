// JSON as users write it: a mistake is told in one line with its place, also where a plain parser lets it
// pass.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace shardwright {

using Json = nlohmann::ordered_json;

/// Throws: Error with line and column if it is not JSON; or that names a key that an object has twice.
Json parse_json(std::string_view text);

/// `value` on one line and not too long.
std::string short_text(const Json& value);

}  // namespace shardwright
