#include "shardwright/plan/json_fields.h"

#include <fmt/format.h>

#include <utility>

namespace shardwright {

Error kind_error(std::string_view key, std::string_view kind, const Json& value) {
  return error("\"{}\" should be {}, not {}", key, kind, short_text(value));
}

const Json& member(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) throw error("has no \"{}\"", key);
  return *it;
}

double number_or(const Json& json, const char* key, double otherwise) {
  if (!json.contains(key)) return otherwise;
  const auto number = number_in(json.at(key));
  if (!number) throw kind_error(key, "a number", json.at(key));
  return *number;
}

std::string text_or(const Json& json, const char* key, std::string otherwise) {
  return member_or(json, key, "a text", std::move(otherwise));
}

std::int64_t long_of(const Json& json, const char* key, std::int64_t least, std::int64_t most) {
  const auto n = integer_in(json);
  if (!n || *n < least || *n > most)
    throw kind_error(key, fmt::format("an integer from {} to {}", least, most), json);
  return *n;
}

int integer_of(const Json& json, const char* key, int least, int most) {
  return static_cast<int>(long_of(json, key, least, most));
}

}  // namespace shardwright
