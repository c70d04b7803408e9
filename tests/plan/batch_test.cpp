#include "shardwright/plan/batch.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

bool mixes(const std::string& text) { return mixes_samples(parse_graph("%x = input f32[8, 4, 6]\n" + text)); }

TEST(Batch, sums_over_samples_mix_them) {
  EXPECT_FALSE(mixes("%y = relu %x\n"));
  EXPECT_TRUE(mixes("%y = reduce_sum %x (dims=[0])\n"));
  EXPECT_FALSE(mixes("%y = reduce_sum %x (dims=[1])\n"));
  EXPECT_FALSE(mixes("%y = reduce_sum %x (dims=[0, 1, 2])\n"));  // a loss
}

/// Exporters put the batch behind other dims, and several into one.
TEST(Batch, is_followed_into_dims_that_are_made_of_several) {
  const std::string moved = "%t = transpose %x (dims=[1, 0, 2])\n%r = reshape %t (shape=[32, 6])\n";
  EXPECT_FALSE(mixes(moved + "%y = relu %r\n"));
  EXPECT_FALSE(mixes(moved + "%b = reshape %r (shape=[4, 8, 6])\n%y = reduce_sum %b (dims=[0])\n"));
  EXPECT_TRUE(mixes(moved + "%b = reshape %r (shape=[4, 8, 6])\n%y = reduce_sum %b (dims=[1])\n"));
  EXPECT_TRUE(mixes(moved + "%y = reduce_sum %r (dims=[0])\n"));
  EXPECT_TRUE(
      mixes(moved + "%b = reshape %r (shape=[8, 4, 6])\n%y = reduce_sum %b (dims=[1])\n"));  // not as it was
  EXPECT_FALSE(
      mixes("%r = reshape %x (shape=[32, 6])\n%b = reshape %r (shape=[8, 4, 6])\n"
            "%y = reduce_sum %b (dims=[1])\n"));
}

}  // namespace
}  // namespace shardwright
