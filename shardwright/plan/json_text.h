// JSON as users write it: a mistake is told in one line with its place, also where a plain parser lets it
// pass.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

using Json = nlohmann::ordered_json;

/// Throws: Error with line and column if it is not JSON; or that names a key that an object has twice, or says that
/// it is nested deeper than any of ours (so that nobody's recursion over it is deep).
Json parse_json(std::string_view text);

/// A number without fraction that fits into 63 bits, or a finite number; else nothing. The library rounds and wraps.
std::optional<std::int64_t> integer_in(const Json& value);
std::optional<double> number_in(const Json& value);

/// Throws: Error that names the first key of the object that is not in `known`, and near ones; with `"where": ` in front.
void check_keys(const Json& object, const std::vector<std::string>& known);
void check_keys(const Json& object, std::string_view where, const std::vector<std::string>& known);

/// `value` on one line and not too long.
std::string short_text(const Json& value);

}  // namespace shardwright
