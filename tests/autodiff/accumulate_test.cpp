#include "shardwright/autodiff/accumulate.h"

#include <gtest/gtest.h>

#include "shardwright/base/error.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"

namespace shardwright {
namespace {

TEST(Accumulate, adds_up_what_the_update_reads_and_scales_the_seed) {
  const Graph graph = parse_graph(R"(%x = input f32[4]
%w = param f32[4]
%y = mul %x, %w
%loss = reduce_sum %y
backward:
%1 = fill (dtype=f32, shape=[], value=1) grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : f32[4] grad %y
%3 = mul %2, %x of %y : f32[4] grad %w
update:
%w2 = sgd %w, %3 (rate=0.5)
output %loss
update %w <- %w2
)");
  const Graph all = accumulated(graph, 4);
  verify(all);
  EXPECT_EQ(to_text(all), R"(%x = input f32[4]
%w = param f32[4]
%y = mul %x, %w : f32[4]
%loss = reduce_sum %y : f32[]
backward:
%1 = fill (dtype=f32, shape=[], value=0.25) : f32[] grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : f32[4] grad %y
%3 = mul %2, %x of %y : f32[4] grad %w
%w.accumulator = accumulator f32[4] grad %w
%w.accumulated = sum %w.accumulator, %3 : f32[4] grad %w
update:
%w2 = sgd %w, %w.accumulated (rate=0.5) : f32[4]
output %loss
update %w <- %w2
update %w.accumulator <- %w.accumulated
)");
  EXPECT_EQ(to_text(accumulated(graph, 1)), to_text(graph));
}

TEST(Accumulate, refuses_an_update_by_what_is_no_gradient) {
  const Graph graph = parse_graph(R"(%x = input f32[4]
%w = param f32[4]
%y = mul %x, %w
%loss = reduce_sum %y
backward:
%1 = fill (dtype=f32, shape=[], value=1) grad %loss
update:
%w2 = sgd %w, %y (rate=0.5)
output %loss
update %w <- %w2
)");
  EXPECT_THROW(accumulated(graph, 2), Error);
}

}  // namespace
}  // namespace shardwright
