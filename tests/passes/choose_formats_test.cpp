// Where values lie in other formats than row-major, and where they are brought into another: with a backend whose
// matmul takes blocks of columns and a transposed weight.

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/optimize.h"

namespace shardwright {
namespace {

Formats formats_of(const OpDef& op, const KernelCall& call) {
  const Format blocks = parse_format("aB2b");
  if (op.name == "matmul") return {.operands = {blocks, parse_format("ba")}, .results = {blocks}};
  if (op.name == "outer_product") return {.operands = {blocks, blocks}, .results = {parse_format("ba")}};
  if (!op.block) return {};
  Formats out{.takes_any = true};
  for (const TensorView& t : call.operands) {
    if (t.shape != call.results[0].shape && t.size() != 1) return {};
    out.operands.push_back(t.size() == 1 ? std::optional(Format{}) : std::nullopt);
  }
  out.results.resize(call.results.size());
  return out;
}

std::string chosen(std::string_view text, const FormatsOf& formats = formats_of) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  p = choose_formats(std::move(p), {redistributor, formats});
  verify(p.graph);
  EXPECT_EQ(to_text(parse_program_graph(to_text(p.graph))), to_text(p.graph));
  return to_text(p.graph, {.layouts = false});
}

// Between the two products nothing is brought into another format, and the weights are not at all.
TEST(ChooseFormats, keeps_a_format_from_node_to_node) {
  EXPECT_EQ(chosen(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 8]
%v = param f32[8, 2]
%1 = matmul %x, %w
%2 = relu %1
%3 = matmul %2, %v
output %3
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8] in ba
%v = param f32[8, 2] in ba
%x.aB2b = reformat %x : f32[4, 6] in aB2b
%1 = matmul %x.aB2b, %w : f32[4, 8] in aB2b
%2 = relu %1 : f32[4, 8] in aB2b
%3 = matmul %2, %v : f32[4, 2] in aB2b
%3.plain = reformat %3 : f32[4, 2]
output %3.plain
)");
}

// A weight, its gradient and the optimizer's state lie alike for ever.
TEST(ChooseFormats, lets_the_optimizer_keep_its_state_as_the_kernel_makes_the_gradient) {
  EXPECT_EQ(chosen(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 8]
%y = matmul %x, %w
backward:
%dy = neg %y
%dw = outer_product %x, %dy
update:
%m = state f32[6, 8]
%w2, %m2 = momentum %w, %dw, %m (rate=0.5)
update %w <- %w2
update %m <- %m2
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8] in ba
%x.aB2b = reformat %x : f32[4, 6] in aB2b
%y = matmul %x.aB2b, %w : f32[4, 8] in aB2b
backward:
%dy = neg %y : f32[4, 8] in aB2b
%x.aB2b_ = reformat %x : f32[4, 6] in aB2b
%dw = outer_product %x.aB2b_, %dy : f32[6, 8] in ba
update:
%m = state f32[6, 8] in ba
%w2, %m2 = momentum %w, %dw, %m (rate=0.5) : f32[6, 8] in ba, f32[6, 8] in ba
update %w <- %w2
update %m <- %m2
)");
}

// Master and state are larger than the weight and its gradient, but have no wishes of their own.
TEST(ChooseFormats, lets_a_master_lie_as_its_short_weight) {
  EXPECT_EQ(chosen(R"(mesh []
%x = input bf16[4, 6]
%w = param bf16[6, 8] (master=f32)
%y = matmul %x, %w
backward:
%dy = neg %y
%dw = outer_product %x, %dy
%g = cast %dw (to=f32)
update:
%m = state f32[6, 8]
%a = state f32[6, 8]
%w2, %m2, %a2 = momentum %w, %g, %m, %a (master=true, rate=0.5)
update %w <- %w2
update %m <- %m2
update %a <- %a2
)"),
            R"(%x = input bf16[4, 6]
%w = param bf16[6, 8] (master=f32) in ba
%x.aB2b = reformat %x : bf16[4, 6] in aB2b
%y = matmul %x.aB2b, %w : bf16[4, 8] in aB2b
backward:
%dy = neg %y : bf16[4, 8] in aB2b
%x.aB2b_ = reformat %x : bf16[4, 6] in aB2b
%dw = outer_product %x.aB2b_, %dy : bf16[6, 8] in ba
%g = cast %dw (to=f32) : f32[6, 8] in ba
update:
%m = state f32[6, 8] in ba
%a = state f32[6, 8] in ba
%w2, %m2, %a2 = momentum %w, %g, %m, %a (master=true, rate=0.5) : bf16[6, 8] in ba, f32[6, 8] in ba, f32[6, 8] in ba
update %w <- %w2
update %m <- %m2
update %a <- %a2
)");
}

// An all_reduce takes elements in any order; a step that cuts a dim takes them row-major.
TEST(ChooseFormats, lets_all_reduces_pass_and_no_other_step) {
  EXPECT_EQ(chosen(R"(mesh [tp=2]
%x = input f32[4, 6] as [4, 12] [-, tp]
%w = param f32[6, 8] as [12, 8] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 8] as [4, 8] [-, -] sum(tp)
%2 = all_reduce.sum %1 over tp : f32[4, 8] as [4, 8] [-, -]
%3 = relu %2 {} : f32[4, 8] as [4, 8] [-, -]
%4 = slice %3 dim 1 over tp : f32[4, 4] as [4, 8] [-, tp]
output %4
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8] in ba
%x.aB2b = reformat %x : f32[4, 6] in aB2b
%1 = matmul %x.aB2b, %w : f32[4, 8] in aB2b
%2 = all_reduce.sum %1 over tp : f32[4, 8] in aB2b
%3 = relu %2 : f32[4, 8] in aB2b
%3.plain = reformat %3 : f32[4, 8]
%4 = slice %3.plain dim 1 over tp : f32[4, 4]
output %4
)");
}

// A bias is stretched along rows, which blocks have not.
TEST(ChooseFormats, brings_back_what_a_node_takes_only_row_major) {
  EXPECT_EQ(chosen(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 8]
%b = param f32[8]
%1 = matmul %x, %w
%2 = add %1, %b
output %2
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 8] in ba
%b = param f32[8]
%x.aB2b = reformat %x : f32[4, 6] in aB2b
%1 = matmul %x.aB2b, %w : f32[4, 8] in aB2b
%1.plain = reformat %1 : f32[4, 8]
%2 = add %1.plain, %b : f32[4, 8]
output %2
)");
}

// Where two neighbours disagree, the larger tensor stays.
TEST(ChooseFormats, moves_the_fewest_bytes) {
  EXPECT_EQ(chosen(R"(mesh []
%x = input f32[4, 6]
%w = param f32[6, 6]
%1 = matmul %x, %w
%2 = exp %1
%3 = tanh %2
%4 = reshape %3 (shape=[24])
%5 = add %3, %2
%6 = matmul %5, %w
output %4
output %6
)"),
            R"(%x = input f32[4, 6]
%w = param f32[6, 6] in ba
%x.aB2b = reformat %x : f32[4, 6] in aB2b
%1 = matmul %x.aB2b, %w : f32[4, 6] in aB2b
%2 = exp %1 : f32[4, 6] in aB2b
%3 = tanh %2 : f32[4, 6] in aB2b
%3.plain = reformat %3 : f32[4, 6]
%4 = reshape %3.plain (shape=[24]) : f32[24]
%5 = add %3, %2 : f32[4, 6] in aB2b
%6 = matmul %5, %w : f32[4, 6] in aB2b
%6.plain = reformat %6 : f32[4, 6]
output %4
output %6.plain
)");
}

TEST(ChooseFormats, leaves_a_program_row_major_without_a_backend) {
  const std::string text = R"(%x = input f32[4, 6]
%w = param f32[6, 8]
%1 = matmul %x, %w : f32[4, 8]
output %1
)";
  EXPECT_EQ(chosen("mesh []\n" + text, {}), text);
}

}  // namespace
}  // namespace shardwright
