#include "shardwright/plan/batch.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

/// The operator by which a loss %y does.
std::string mixing(const std::string& text) {
  const Graph graph = parse_graph("%x = input f32[8, 4, 6]\n" + text + "output %y\n");
  const NodeId id = first_mixing(graph);
  return id.is_valid() ? graph.name_of(id) : "";
}

bool mixes(const std::string& text) { return !mixing(text).empty(); }

TEST(Batch, sums_over_samples_mix_them) {
  EXPECT_FALSE(mixes("%y = relu %x\n"));
  EXPECT_TRUE(mixes("%y = reduce_sum %x (dims=[0])\n"));
  EXPECT_FALSE(mixes("%y = reduce_sum %x (dims=[1])\n"));
  EXPECT_TRUE(mixes("%y = reduce_sum %x (dims=[0, 1, 2])\n"));
  EXPECT_FALSE(mixes("%y = reduce_mean %x\n"));
  EXPECT_FALSE(mixes("%l = reduce_sum %x (dims=[2])\n%y = reduce_mean %l\n"));
}

/// Of means what is linear, of sums what is a mean in the end.
TEST(Batch, means_of_parts_make_the_mean_of_the_whole) {
  const std::string mean = "%m = reduce_mean %x\n", sum = "%m = reduce_sum %x\n";
  const std::string weights = "%w = param f32[5]\n%p = reduce_sum %w\n";
  for (const char* end : {"%y = scale %m (factor=0.3)\n", "%y = shift %m (value=2)\n", "%y = neg %m\n"}) {
    EXPECT_EQ(mixing(mean + end), "") << end;
    EXPECT_EQ(mixing(sum + end), "m") << end;
  }
  EXPECT_EQ(mixing(mean + weights + "%y = add %m, %p\n"), "");
  EXPECT_EQ(mixing(mean + weights + "%y = mul %p, %m\n"), "");
  EXPECT_EQ(mixing(mean + "%y = square %m\n"), "y");
  EXPECT_EQ(mixing(mean + "%y = mul %m, %m\n"), "y");
  EXPECT_EQ(mixing(sum + "%y = scale %m (factor=0.125)\n"), "");         // 8 samples
  EXPECT_EQ(mixing(sum + "%y = scale %m (factor=0.0052083333)\n"), "");  // of 24 elements
  EXPECT_EQ(mixing(sum + "%n = reduce_mean %x\n%y = add %m, %n\n"), "m");
}

TEST(Batch, statistics_and_products_of_samples_mix_them) {
  EXPECT_EQ(mixing("%m = reduce_mean %x (dims=[0])\n%s = sub %x, %m\n%y = reduce_mean %s\n"), "s");
  EXPECT_EQ(mixing("%m = reduce_max %x (dims=[0])\n%y = reduce_mean %m\n"), "m");
  EXPECT_EQ(mixing("%r = reshape %x (shape=[8, 24])\n%t = transpose %r (dims=[1, 0])\n%p = matmul %r, %t\n"
                   "%y = reduce_mean %p\n"),
            "p");
  // What the loss is not made of does not count.
  EXPECT_EQ(mixing("%s = reduce_sum %x\n%y = reduce_mean %x\n"), "");
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
