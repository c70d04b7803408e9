#include "shardwright/plan/json_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

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

TEST(JsonText, of_many_keys_is_read_in_a_moment) {
  const std::string objects = object_of(65000);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(fmt::format("[{0}, {0}]", objects)).at(1).at("k64999"), 64999);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
}

TEST(JsonText, is_what_the_library_reads) {
  for (const char* text :
       {"null", "[]", "{}", "-3", R"({"b": [1, -2, 18446744073709551615, 1e300, 0.5, true, null, "x\u00e9"],
                                      "a": {"": [[], {}, [{"c": ""}]]}, "d": false})"})
    EXPECT_EQ(parse_json(text), Json::parse(text)) << text;
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
