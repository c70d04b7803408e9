// Each pass on programs written by hand.

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

/// The program's text after `pass` and after dropping what is dead then.
std::string after(Program (*pass)(Program, const PassContext&), std::string_view text) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  p = drop_dead_nodes(pass(std::move(p), {redistributor}), {redistributor});
  verify(p.graph);
  return to_text(p.graph);
}

TEST(MergeCommonSubexpressions, keeps_the_first_of_equal_nodes) {
  EXPECT_EQ(after(merge_common_subexpressions, R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%a = exp %x {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%b = exp %x {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%c = tanh %b {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%d = tanh %a {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%e = add %c, %d {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %e
)"),
            R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%a = exp %x {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%c = tanh %a {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%e = add %c, %c {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %e
)");
}

TEST(MergeCommonSubexpressions, tells_attributes_strategies_and_inputs_apart) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[4, 4] as [4, 4] [-, -]
%y = input f32[4, 4] as [4, 4] [-, -]
%a = scale %x (factor=2) {} : f32[4, 4] as [4, 4] [-, -]
%b = scale %x (factor=3) {} : f32[4, 4] as [4, 4] [-, -]
%c = slice %x dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%d = slice %x dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %a
output %b
output %c
output %d
output %y
)";
  EXPECT_EQ(after(merge_common_subexpressions, text), text);
}

// A parameter that is gathered again for the backward is gathered again on purpose: it is memory.
TEST(MergeCommonSubexpressions, gathers_a_parameter_once_per_phase) {
  EXPECT_EQ(after(merge_common_subexpressions, R"(mesh [dp=2]
%w = param f32[2, 4] as [4, 4] [dp, -]
%1 = all_gather %w dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%2 = all_gather %w dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%y = add %1, %2 {} : f32[4, 4] as [4, 4] [-, -]
backward:
%3 = all_gather %w dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%z = mul %3, %y {} : f32[4, 4] as [4, 4] [-, -]
output %z
)"),
            R"(mesh [dp=2]
%w = param f32[2, 4] as [4, 4] [dp, -]
%1 = all_gather %w dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%y = add %1, %1 {} : f32[4, 4] as [4, 4] [-, -]
backward:
%3 = all_gather %w dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%z = mul %3, %y {} : f32[4, 4] as [4, 4] [-, -]
output %z
)");
}

TEST(CancelSteps, takes_the_ancestor_that_lies_so_already) {
  EXPECT_EQ(after(cancel_steps, R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%1 = all_gather %x dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%2 = slice %1 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%y = exp %2 {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%3 = slice %1 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
%4 = all_to_all %3 dim 1 to 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%z = add %y, %4 {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %z
)"),
            R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%y = exp %x {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
%z = add %y, %x {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %z
)");
}

TEST(CancelSteps, leaves_steps_that_lead_elsewhere) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%1 = all_gather %x dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%2 = slice %1 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %2
)";
  EXPECT_EQ(after(cancel_steps, text), text);
}

TEST(MergeSteps, makes_one_step_of_a_chain) {
  EXPECT_EQ(after(merge_steps, R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%1 = all_gather %x dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%2 = slice %1 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %2
)"),
            R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%2 = all_to_all %x dim 0 to 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %2
)");
  EXPECT_EQ(after(merge_steps, R"(mesh [tp=2]
%x = input f32[4, 2] as [4, 4] [-, tp]
%w = param f32[2, 4] as [4, 4] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 4] as [4, 4] [-, -] sum(tp)
%2 = all_reduce.sum %1 over tp : f32[4, 4] as [4, 4] [-, -]
%3 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
output %3
)")
                    .find("reduce_scatter %1 dim 0 over tp") != std::string::npos,
            true);
}

TEST(MergeSteps, leaves_a_chain_that_somebody_sees) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%1 = all_gather %x dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%2 = slice %1 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %2
)";
  EXPECT_EQ(after(merge_steps, text + "output %1\n"), text + "output %1\n");
}

// Every user of the sum takes a slice: it is made sliced, once per layout. The phases are no reason for two.
TEST(BypassSteps, reduces_straight_into_the_slices_that_are_wanted) {
  EXPECT_EQ(after(bypass_steps, R"(mesh [tp=2]
%x = input f32[4, 2] as [4, 4] [-, tp]
%w = param f32[2, 4] as [4, 4] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 4] as [4, 4] [-, -] sum(tp)
%2 = all_reduce.sum %1 over tp : f32[4, 4] as [4, 4] [-, -]
%3 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%y = exp %3 {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
backward:
%4 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%z = mul %4, %y {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %z
)"),
            R"(mesh [tp=2]
%x = input f32[4, 2] as [4, 4] [-, tp]
%w = param f32[2, 4] as [4, 4] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 4] as [4, 4] [-, -] sum(tp)
%3 = reduce_scatter %1 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%y = exp %3 {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
backward:
%z = mul %3, %y {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %z
)");
}

// A slice that nobody reads, such as merge_steps leaves behind, has no price: with it the sum would stay.
TEST(BypassSteps, does_not_price_dead_readers) {
  Program p{.graph = parse_program_graph(R"(mesh [tp=2]
%x = input f32[4, 2] as [4, 4] [-, tp]
%w = param f32[2, 4] as [4, 4] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 4] as [4, 4] [-, -] sum(tp)
%2 = all_reduce.sum %1 over tp : f32[4, 4] as [4, 4] [-, -]
%3 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%dead = slice %2 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
%y = exp %3 {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
backward:
%4 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
%z = mul %4, %y {i0: tp} : f32[2, 4] as [4, 4] [tp, -]
output %z
)")};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  const std::string text = to_text(optimize(std::move(p), {redistributor}).graph);
  EXPECT_NE(text.find("reduce_scatter"), std::string::npos) << text;
  EXPECT_EQ(text.find("all_reduce"), std::string::npos) << text;
}

TEST(BypassSteps, keeps_a_sum_that_is_read_whole_or_sliced_twice) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[4, 2] as [4, 4] [-, tp]
%w = param f32[2, 4] as [4, 4] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 4] as [4, 4] [-, -] sum(tp)
%2 = all_reduce.sum %1 over tp : f32[4, 4] as [4, 4] [-, -]
%3 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
)";
  // Two reduce_scatters move as much as the all_reduce, and start twice.
  const std::string twice = text + R"(%4 = slice %2 dim 1 over tp : f32[4, 2] as [4, 4] [-, tp]
output %3
output %4
)";
  EXPECT_EQ(after(bypass_steps, twice), twice);
  const std::string whole = text + R"(%y = exp %2 {} : f32[4, 4] as [4, 4] [-, -]
output %3
output %y
)";
  EXPECT_EQ(after(bypass_steps, whole), whole);
  const std::string handed_out = text + R"(%4 = slice %2 dim 0 over tp : f32[2, 4] as [4, 4] [tp, -]
output %2
output %3
output %4
)";
  EXPECT_EQ(after(bypass_steps, handed_out), handed_out);
}

TEST(DropDeadNodes, drops_steps_nobody_reads) {
  EXPECT_EQ(after(drop_dead_nodes, R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
%1 = all_gather %x dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
output %x
)"),
            R"(mesh [tp=2]
%x = input f32[2, 4] as [4, 4] [tp, -]
output %x
)");
}

TEST(Optimize, verifies_the_graph_after_each_pass_unless_told_not_to) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[4, 4] as [4, 4] [-, -]
%y = exp %x {} : f32[4, 4] as [4, 4] [-, -]
output %y [-, -]
)";
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  EXPECT_NO_THROW(optimize(p, {redistributor}));
  p.graph.value(p.graph.find("y")).name = "x";
  EXPECT_NO_THROW(optimize(p, {redistributor}, {.verifies = false}));
  try {
    optimize(p, {redistributor});
    FAIL() << "nobody has seen two values of one name";
  } catch (const InternalError& e) {
    EXPECT_STREQ(e.what(), "after pass drop_identities: %x is defined twice");
  }
}

}  // namespace
}  // namespace shardwright
