#include "shardwright/plan/json_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

std::string json_error_of(const std::string& text) {
  try {
    parse_json(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string object_of(int keys) {
  std::string out = "{\"last\": 0";
  for (int k = 1; k < keys; ++k) out += fmt::format(", \"k{}\": {}", k, k);
  return out + "}";
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(JsonText, has_no_more_keys_in_an_object_than_are_read_in_a_moment) {
  EXPECT_EQ(json_error_of(fmt::format("{{\"operators\": [{}]}}", object_of(65537))),
            "an object has more than 65536 keys, which is the most that are read");
  const std::string objects = object_of(5000);
  EXPECT_EQ(parse_json(fmt::format("[{0}, {0}]", objects)).at(1).size(), 5000U);
}

TEST(JsonText, may_have_a_key_in_each_of_several_objects) {
  EXPECT_EQ(parse_json(R"({"a": {"a": 1, "b": [{"a": 2}, {"a": 3}]}, "b": 4})").dump(),
            R"({"a":{"a":1,"b":[{"a":2},{"a":3}]},"b":4})");
  EXPECT_EQ(json_error_of(R"({"a": {"b": [{"c": 1}], "d": 2, "b": 3}})"),
            R"(key "b" stands twice in one object)");
}

TEST(JsonText, is_nested_32_deep_at_most) {
  EXPECT_EQ(json_error_of(nested(32)), "");
  EXPECT_EQ(json_error_of(nested(33)), "is nested more than 32 deep");
}

}  // namespace
}  // namespace shardwright
