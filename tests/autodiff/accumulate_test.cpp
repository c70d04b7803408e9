#include "shardwright/autodiff/accumulate.h"

#include <gtest/gtest.h>

#include "shardwright/base/error.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"

namespace shardwright {
namespace {

/// One weight, its gradient and its update, all of one type.
Graph step_in(std::string_view type) {
  return parse_graph(fmt::format(R"(%x = input {0}[4]
%w = param {0}[4]
%y = mul %x, %w
%loss = reduce_sum %y
backward:
%1 = fill (dtype={0}, shape=[], value=1) grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : {0}[4] grad %y
%3 = mul %2, %x of %y : {0}[4] grad %w
update:
%w2 = sgd %w, %3 (rate=0.5)
output %loss
update %w <- %w2
)",
                                 type));
}

TEST(Accumulate, adds_up_what_the_update_reads_and_scales_the_seed) {
  const Graph graph = step_in("f32");
  const Graph all = accumulated(graph, 4).graph;
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
  EXPECT_EQ(to_text(accumulated(graph, 1).graph), to_text(graph));
}

/// A short sum would stop growing at a few hundred micro-batches.
TEST(Accumulate, adds_up_short_gradients_in_f32) {
  const Graph graph = step_in("bf16");
  const Graph all = accumulated(graph, 4).graph;
  verify(all);
  EXPECT_EQ(to_text(all), R"(%x = input bf16[4]
%w = param bf16[4]
%y = mul %x, %w : bf16[4]
%loss = reduce_sum %y : bf16[]
backward:
%1 = fill (dtype=bf16, shape=[], value=0.25) : bf16[] grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : bf16[4] grad %y
%3 = mul %2, %x of %y : bf16[4] grad %w
%w.gradient = cast %3 (to=f32) : f32[4] grad %w
%w.accumulator = accumulator f32[4] grad %w
%w.accumulated = sum %w.accumulator, %w.gradient : f32[4] grad %w
update:
%w.accumulated.short = cast %w.accumulated (to=bf16) : bf16[4] grad %w
%w2 = sgd %w, %w.accumulated.short (rate=0.5) : bf16[4]
output %loss
update %w <- %w2
update %w.accumulator <- %w.accumulated
)");
}

/// By the time of a backward another forward may have moved %s on; %n is read only to make its next value.
TEST(Accumulate, reads_a_state_that_the_forward_moves_on_in_a_copy) {
  const Graph graph = parse_graph(R"(%x = input f32[4]
%w = param f32[4]
%s = state f32[4]
%n = state f32[4]
%y = mul %x, %w
%z = div %y, %s
%s.new = add %s, %z
%n.new = add %n, %z
%loss = reduce_sum %z
backward:
%1 = fill (dtype=f32, shape=[], value=1) grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : f32[4] grad %z
%3 = div %2, %s of %z : f32[4] grad %y
%4 = mul %3, %x of %y : f32[4] grad %w
update:
%w2 = sgd %w, %4 (rate=0.5)
output %loss
update %s <- %s.new
update %n <- %n.new
update %w <- %w2
)");
  const Accumulated all = accumulated(graph, 4, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0});
  verify(all.graph);
  const std::string text = to_text(all.graph);
  EXPECT_NE(text.find(R"(%s = state f32[4]
%s.now = shift %s (value=0.0) : f32[4]
%n = state f32[4]
%y = mul %x, %w : f32[4]
%z = div %y, %s.now : f32[4]
%s.new = add %s.now, %z : f32[4]
%n.new = add %n, %z : f32[4]
)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%3 = div %2, %s.now of %z"), std::string::npos) << text;
  const auto stage_of = [&](const char* name) {
    return all.stages.at(static_cast<std::size_t>(all.graph.value(all.graph.find(name)).producer.index));
  };
  EXPECT_EQ(stage_of("y"), 0);
  EXPECT_EQ(stage_of("s.now"), 1);
  EXPECT_EQ(stage_of("z"), 1);
}

/// Forward and backward read the micro-batches done, and are told how many make a step; the update counts steps.
TEST(Accumulate, tells_what_counts_steps_how_many_micro_batches_are_one) {
  const Graph graph = parse_graph(R"(%x = input f32[4]
%w = param f32[4]
%optimizer.step = state f32[] (init=zeros)
%d = dropout %x, %optimizer.step (rate=0.5, name=d)
%y = mul %d, %w
%z = dropout %y, %optimizer.step (rate=0.25, name=z)
%loss = reduce_sum %z
backward:
%1 = fill (dtype=f32, shape=[], value=1) grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : f32[4] grad %z
%3 = dropout %2, %optimizer.step (rate=0.25, name=z) of %z : f32[4] grad %y
%4 = mul %3, %d of %y : f32[4] grad %w
update:
%w2 = sgd %w, %4 (rate=0.5)
%next = shift %optimizer.step (value=1)
output %loss
update %w <- %w2
update %optimizer.step <- %next
)");
  const Graph all = accumulated(graph, 4).graph;
  verify(all);
  const std::string text = to_text(all);
  for (const char* line :
       {"%optimizer.micro_batches.now = shift %optimizer.micro_batches (value=0.0) : f32[]\n",
        "%d = dropout %x, %optimizer.micro_batches.now (micro_batches=4, name=d, rate=0.5) : f32[4]\n",
        "%3 = dropout %2, %optimizer.micro_batches.now (micro_batches=4, name=z, rate=0.25) of %z",
        "%next = shift %optimizer.step (value=1) : f32[]\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
}

/// Its seed is a micro-batch's share of the whole batch's.
TEST(Accumulate, adds_up_gradients_that_no_input_changes) {
  const Graph graph = parse_graph(R"(%w = param f32[4]
%loss = reduce_sum %w
backward:
%1 = fill (dtype=f32, shape=[], value=1) grad %loss
%2 = broadcast %1 (shape=[4]) of %loss : f32[4] grad %w
update:
%w2 = sgd %w, %2 (rate=0.5)
output %loss
update %w <- %w2
)");
  EXPECT_NE(to_text(accumulated(graph, 4).graph).find("%w2 = sgd %w, %w.accumulated"), std::string::npos);
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
