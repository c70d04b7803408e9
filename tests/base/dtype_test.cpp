#include "shardwright/base/dtype.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

std::uint16_t rounded_by_the_compiler(float x) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
}

TEST(F16, every_half_is_the_float_that_the_compiler_makes_of_it) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    F16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto want = static_cast<float>(std::bit_cast<_Float16>(half.bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float{half}), std::bit_cast<std::uint32_t>(want)) << bits;
  }
}

// Around every half and every tie between two, and all over the range.
TEST(F16, floats_are_rounded_as_the_compiler_does) {
  for (std::uint32_t high = 0; high <= 0xffff; ++high)
    for (std::uint32_t low : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x2000U, 0x5a5aU, 0xefffU, 0xf000U,
                              0xf001U, 0xffffU}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(F16(x).bits, rounded_by_the_compiler(x)) << std::hex << (high << 16 | low);
    }
}

}  // namespace
}  // namespace shardwright
