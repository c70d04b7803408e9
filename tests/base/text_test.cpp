#include "shardwright/base/text.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

/// The encoding of a code point by its definition, whether it may be written or not.
std::string encoded(std::uint32_t code, int bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  std::string out(static_cast<std::size_t>(bytes), 0);
  for (int i = bytes - 1; i > 0; --i, code >>= 6)
    out[static_cast<std::size_t>(i)] = static_cast<char>(0x80 | (code & 0x3f));
  out[0] = static_cast<char>((0xf00 >> bytes & 0xff) | code);
  return out;
}

TEST(Utf8, every_code_point_is_text_in_its_shortest_form_only) {
  for (std::uint32_t code = 0; code < 0x1fffff; code += code < 0x11000 ? 1 : 61) {
    const int shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool is_code = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    for (int bytes = shortest; bytes <= 4; ++bytes) {
      const std::string text = encoded(code, bytes);
      EXPECT_EQ(end_of_utf8("a" + text + "b"),
                is_code && bytes == shortest ? std::nullopt : std::optional<std::size_t>(1))
          << code;
      // Cut short, by its end or by the next character.
      for (int kept = 1; kept < bytes; ++kept) {
        const std::string cut = text.substr(0, static_cast<std::size_t>(kept));
        EXPECT_EQ(end_of_utf8(cut), 0u) << code;
        EXPECT_EQ(end_of_utf8(cut + "a"), 0u) << code;
      }
    }
  }
  for (int alone = 0x80; alone < 0x100; ++alone)
    EXPECT_EQ(end_of_utf8(std::string(1, static_cast<char>(alone))), 0u);
}

TEST(NearNames, begin_with_what_was_written_or_are_spelled_alike) {
  const std::vector<std::string> clusters{"v100-32g", "a100-80g", "a100-40g", "h100", "h200"};
  EXPECT_EQ(near_names("a100", clusters), " (did you mean a100-80g or a100-40g?)");
  EXPECT_EQ(near_names("h10", clusters), " (did you mean h100?)");
  EXPECT_EQ(near_names("h300", clusters), " (did you mean h100 or h200?)");
  EXPECT_EQ(near_names("v100", clusters), " (did you mean v100-32g or h100?)");
  EXPECT_EQ(near_names("tpu", clusters), "");
  EXPECT_EQ(near_names("", clusters), "");
}

}  // namespace
}  // namespace shardwright
