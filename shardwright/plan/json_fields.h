// Members of JSON objects, each of one kind. What is of another kind is told with its key, what it should be and what
// it is.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "shardwright/base/error.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// `"KEY" should be KIND, not VALUE`
Error kind_error(std::string_view key, std::string_view kind, const Json& value);

/// Throws: Error where there is none.
const Json& member(const Json& json, const char* key);

/// The member `key`, or `otherwise` where there is none. Throws: Error that says what it should be.
template <class T>
T member_or(const Json& json, const char* key, std::string_view kind, T otherwise) try {
  const auto it = json.find(key);
  return it == json.end() ? otherwise : it->get<T>();
} catch (const Json::exception&) {
  throw kind_error(key, kind, json.at(key));
}
double number_or(const Json& json, const char* key, double otherwise);
std::string text_or(const Json& json, const char* key, std::string otherwise);

constexpr std::int64_t most_of_all = std::numeric_limits<std::int64_t>::max();

/// `json` itself, called `key`. Throws: Error if it is no integer from `least` to `most`.
std::int64_t long_of(const Json& json, const char* key, std::int64_t least, std::int64_t most);
int integer_of(const Json& json, const char* key, int least, int most);

}  // namespace shardwright
