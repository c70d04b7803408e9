#include "shardwright/base/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

std::vector<float> counted(const Shape& shape) {
  std::vector<float> out(static_cast<std::size_t>(element_count(shape)));
  std::iota(out.begin(), out.end(), 0.0F);
  return out;
}

std::vector<float> moved(const std::vector<float>& in, const char* from, const char* to, const Shape& shape) {
  std::vector<float> out(in.size(), -1.0F);
  reformat(reinterpret_cast<const std::byte*>(in.data()), parse_format(from),
           reinterpret_cast<std::byte*>(out.data()), parse_format(to), shape, sizeof(float));
  return out;
}

TEST(Format, prints_and_parses_the_same) {
  for (const char* text : {"aBcd16b", "ABcd16b16a", "Acdb16a", "ABcd4b16a4b", "ba", "BAcd16a16b"})
    EXPECT_EQ(to_text(parse_format(text)), text);
  EXPECT_TRUE(parse_format("abcd").is_row_major());
  EXPECT_TRUE(parse_format("").is_row_major());
}

TEST(Format, refuses_what_is_none) {
  for (const char* text : {"aBcd", "abcd16b", "abbd", "acd", "aBcd16", "aBcd300b", "a-b", "abcdefghi", "16b"})
    EXPECT_THROW(parse_format(text), Error) << text;
}

TEST(Format, fits_where_blocks_divide_the_dims) {
  EXPECT_TRUE(fits(parse_format("aBcd16b"), {1, 32, 3, 3}));
  EXPECT_FALSE(fits(parse_format("aBcd16b"), {1, 24, 3, 3}));
  EXPECT_FALSE(fits(parse_format("aBcd16b"), {32, 32}));
  EXPECT_TRUE(fits(Format{}, {7}));
}

TEST(Format, puts_blocks_innermost) {
  const Shape shape{2, 4, 3};  // aBc2b: [a, b / 2, c, 2 of b]
  const std::vector<float> in = counted(shape), out = moved(in, "abc", "aBc2b", shape);
  std::size_t at = 0;
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t b = 0; b < 4; b += 2)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(out[at++], in[(a * 4 + b + i) * 3 + c]);
}

TEST(Format, comes_back_by_any_way) {
  const Shape shape{32, 16, 3, 2};
  const std::vector<float> in = counted(shape);
  for (const char* one : {"abcd", "ABcd16b16a", "Acdb16a", "ABcd4b16a4b"})
    for (const char* other : {"dcba", "aBcd16b", "BAcd16a16b", "ABcd16b16a"})
      EXPECT_EQ(moved(moved(moved(in, "abcd", one, shape), one, other, shape), other, "abcd", shape), in)
          << one << " " << other;
}

/// As kernels in bf16 want them on processors with tiles.
TEST(Format, comes_from_blocks_that_do_not_divide_each_other) {
  const Shape shape{2, 96, 3};
  const std::vector<float> in = counted(shape);
  EXPECT_EQ(moved(moved(in, "abc", "aBc32b", shape), "aBc32b", "aBc48b", shape),
            moved(in, "abc", "aBc48b", shape));
}

TEST(Format, takes_tensors_of_one_element) {
  EXPECT_EQ(moved({5}, "ab", "ba", {1, 1}), std::vector<float>{5});
}

}  // namespace
}  // namespace shardwright
