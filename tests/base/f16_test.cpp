#include "shardwright/base/f16.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "shardwright/base/vectorize.h"

namespace shardwright {
namespace {

class F16Runs : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) GTEST_SKIP() << "this machine has no such instructions";
    use_instruction_set(GetParam());
  }
  void TearDown() override { use_instruction_set(best_instruction_set()); }
};

TEST_P(F16Runs, are_converted_as_their_elements) {
  std::vector<F16> x(65536 + 3);  // not a whole number of vectors
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> y(x.size());
  convert(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(float{x[i]})) << x[i].bits;
}

TEST_P(F16Runs, round_floats_as_their_elements) {
  std::vector<float> x;
  for (std::uint32_t high = 0; high <= 0xffff; ++high)
    for (std::uint32_t low : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0xefffU, 0xf001U})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  std::vector<F16> y(x.size());
  convert(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y[i].bits, F16(x[i]).bits) << std::hex << std::bit_cast<std::uint32_t>(x[i]);
}

INSTANTIATE_TEST_SUITE_P(All, F16Runs,
                         ::testing::Values(InstructionSet::plain, InstructionSet::avx2,
                                           InstructionSet::avx512),
                         [](const auto& each) {
                           switch (each.param) {
                             case InstructionSet::avx512: return "avx512";
                             case InstructionSet::avx2: return "avx2";
                             default: return "plain";
                           }
                         });

}  // namespace
}  // namespace shardwright
