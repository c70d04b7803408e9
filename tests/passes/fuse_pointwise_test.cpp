// What runs together, and that nothing is computed from what is not there yet.

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

std::string pointwise_fused(std::string_view text) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  p = fuse_pointwise(std::move(p), {redistributor});
  verify(p.graph);
  const std::string out = to_text(p.graph, {.layouts = false});
  EXPECT_EQ(to_text(parse_program_graph(to_text(p.graph))), to_text(p.graph));
  return out;
}

TEST(FusePointwise, takes_bias_and_activation_along) {
  EXPECT_EQ(pointwise_fused(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 8]
%b = param f32[8]
%1 = matmul %x, %w
%2 = add %1, %b
%c = exp %b
%3 = relu %2
output %3
output %c
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8]
%b = param f32[8]
%1 = matmul %x, %w : f32[4, 8]
+ %2 = add %1, %b : f32[4, 8]
+ %3 = relu %2 : f32[4, 8]
%c = exp %b : f32[8]
output %3
output %c
)");
}

// The update may follow the gradient once nobody needs the old weight: %dx passes.
TEST(FusePointwise, updates_behind_the_gradient) {
  EXPECT_EQ(pointwise_fused(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 8]
%y = matmul %x, %w
backward:
%dy = neg %y
%dw = outer_product %x, %dy
%dx = matmul %dy, %w (transpose_b=true)
%z = exp %dx
update:
%m = state f32[6, 8]
%w2, %m2 = momentum %w, %dw, %m (rate=0.5)
output %z
update %w <- %w2
update %m <- %m2
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8]
%y = matmul %x, %w : f32[4, 8]
backward:
%dy = neg %y : f32[4, 8]
%dx = matmul %dy, %w (transpose_b=true) : f32[4, 6]
+ %z = exp %dx : f32[4, 6]
%m = state f32[6, 8]
%dw = outer_product %x, %dy : f32[6, 8]
+ %w2, %m2 = momentum %w, %dw, %m (rate=0.5) : f32[6, 8], f32[6, 8]
output %z
update %w <- %w2
update %m <- %m2
)");
}

// Both gradients are needed first: the other one passes, and the update follows when all is there.
TEST(FusePointwise, updates_when_the_last_gradient_is_there) {
  EXPECT_EQ(pointwise_fused(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 6]
backward:
%dw = outer_product %x, %x
%dv = outer_product %x, %x
%s = mul %dw, %dv
%n = reduce_sum %s (dims=[0, 1])
update:
%w2 = sgd %w, %s (rate=0.5)
%w3 = scale %w2 (factor=2)
%r = mul %n, %w3
output %r
update %w <- %w3
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 6]
backward:
%dv = outer_product %x, %x : f32[6, 6]
%dw = outer_product %x, %x : f32[6, 6]
+ %s = mul %dw, %dv : f32[6, 6]
+ %w2 = sgd %w, %s (rate=0.5) : f32[6, 6]
+ %w3 = scale %w2 (factor=2) : f32[6, 6]
%n = reduce_sum %s (dims=[0, 1]) : f32[]
update:
%r = mul %n, %w3 : f32[6, 6]
output %r
update %w <- %w3
)");
}

// swiglu's gradient: two branches meet; each is computable only with the other.
TEST(FusePointwise, takes_what_a_user_needs_beside_the_chain) {
  EXPECT_EQ(pointwise_fused(R"(mesh []
%a = input f32[4, 8]
%b = input f32[4, 8]
%s = sigmoid %a
%t = tanh %b
%u = mul %s, %t
output %u
)"),
            R"(%a = input f32[4, 8]
%b = input f32[4, 8]
%s = sigmoid %a : f32[4, 8]
+ %t = tanh %b : f32[4, 8]
+ %u = mul %s, %t : f32[4, 8]
output %u
)");
}

TEST(FusePointwise, ends_where_something_else_is_needed_in_between) {
  const std::string text = R"(%x = input f32[4, 8]
%a = exp %x : f32[4, 8]
%s = reduce_sum %a (dims=[1]) : f32[4]
%r = reshape %s (shape=[4, 1]) : f32[4, 1]
%y = div %a, %r : f32[4, 8]
output %y
)";
  EXPECT_EQ(pointwise_fused("mesh []\n" + text), text);
}

TEST(FusePointwise, does_not_mix_layouts) {
  const std::string text = R"(mesh [tp=2]
%x = input f32[2, 8] as [4, 8] [tp, -]
%a = exp %x {i0: tp} : f32[2, 8] as [4, 8] [tp, -]
%g = all_gather %a dim 0 over tp : f32[4, 8] as [4, 8] [-, -]
%y = exp %g {} : f32[4, 8] as [4, 8] [-, -]
output %y
)";
  EXPECT_EQ(pointwise_fused(text).find('+'), std::string::npos);
}

TEST(FusePointwise, keeps_a_forward_value_out_of_the_backward) {
  EXPECT_EQ(pointwise_fused(R"(mesh []
%x = input f32[8]
%a = exp %x
backward:
%d = neg %a
%e = square %a
output %d
output %e
)"),
            R"(%x = input f32[8]
%a = exp %x : f32[8]
backward:
%d = neg %a : f32[8]
%e = square %a : f32[8]
output %d
output %e
)");
}

TEST(Verify, refuses_what_cannot_run_together) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse_program_graph(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("%x = input f32[4]\n%a = exp %x\n+ %b = reduce_sum %a (dims=[0])\noutput %b\n"),
            "b: reduce_sum is not point-wise and cannot be fused");
  EXPECT_EQ(message("%x = input f32[4]\n+ %a = exp %x\noutput %a\n"),
            "a: nothing can be fused to %x = input");
  EXPECT_EQ(message("%x = input f32[4]\n%y = input f32[8]\n%a = exp %x\n+ %b = exp %y\noutput %b\n"),
            "b: %b does not lie as %a above it and cannot be fused");
}

}  // namespace
}  // namespace shardwright
