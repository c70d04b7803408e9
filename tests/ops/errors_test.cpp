// What a user reads when a call does not fit. One row per message.

#include <gtest/gtest.h>

#include "shardwright/graph/op.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

struct Case {
  std::string op;
  std::string call;
  std::string message;
};

const std::vector<Case> cases = {
    {"exp", "i32[4]", "exp: i32 is not a floating type; cast the operand first"},
    {"exp", "f32[4], f32[4]", "exp: has 2 operands but takes 1"},
    {"relu_grad", "f32[4], f32[6]",
     "relu_grad: operand 1 is f32[6] but operand 0 is f32[4]; they must be equal"},
    {"gelu", "f32[4] (approximate=fast)", "gelu: approximate=fast is unknown; write none, tanh or sigmoid"},
    {"add", "f32[4,6], f32[5]",
     "add: f32[4, 6] and f32[5] do not broadcast: right-aligned, dims must be equal or 1"},
    {"add", "f32[4], f64[4]", "add: operands 0 and 1 are f32[4] and f64[4]; cast one"},
    {"add", "u8[4], u8[4]", "add: u8 is neither a floating type nor i32 or i64; cast the operand first"},
    {"div", "i32[4], i32[4]", "div: i32 is not a floating type; cast the operand first"},
    {"cast", "f32[4] (to=f8)", "cast: to=f8 is no element type; write for example (to=f32)"},
    {"reshape", "f32[4,6] (shape=[5,5])", "reshape: f32[4, 6] has 24 elements but shape=[5, 5] has 25"},
    {"flatten", "f32[4]", "flatten: dim 1 does not exist in [4], which has 1 dims"},
    {"transpose", "f32[4,6] (dims=[0,0])",
     "transpose: dims=[0, 0] should name each of the 2 dims of f32[4, 6] once"},
    {"broadcast", "f32[4] (shape=[4,6])",
     "broadcast: f32[4] does not broadcast to shape=[4, 6]: right-aligned, its dims must be equal to those "
     "or 1"},
    {"reduce_sum", "f32[4,6] (dims=[2])", "reduce_sum: dim 2 does not exist in [4, 6], which has 2 dims"},
    {"reduce_mean", "i32[4]", "reduce_mean: i32 is not a floating type; cast the operand first"},
    {"sum", "", "sum: has no operands but takes at least 1"},
    {"softmax", "f32[4] (dim=3)", "softmax: dim 3 does not exist in [4], which has 1 dims"},
    {"cross_entropy_terms", "f32[6,4], f32[6], f32[6]",
     "cross_entropy_terms: f32 is neither i32 nor i64; cast the operand first"},
    {"cross_entropy_terms", "f32[6,4], i32[4], f32[6]",
     "cross_entropy_terms: logits f32[6, 4] need labels of shape [6] but they are i32[4]"},
    {"layer_norm", "f32[4,6], f32[4], f32[4]",
     "layer_norm: gamma is f32[4] but should have the last dims of x, which is f32[4, 6]"},
    {"group_norm", "f32[4,6], f32[6], f32[6] (groups=4)",
     "group_norm: groups is 4 but must divide the 6 channels of f32[4, 6]"},
    {"batch_norm", "f32[4,6], f32[4], f32[6], f64[2,6]",
     "batch_norm: operand 1 is f32[4] but f32[4, 6] has 6 channels"},
    {"gather", "f32[4,6], f32[2]", "gather: f32 is neither i32 nor i64; cast the operand first"},
    {"unsorted_segment_sum", "f32[4,6], i32[4]",
     "unsorted_segment_sum: count is 0 but must be at least 1; write for example (count=10)"},
    {"scatter_add", "f32[4,6], i32[2], f32[4,6]",
     "scatter_add: updates are f32[4, 6] but x f32[4, 6] at indices i32[2] needs [2, 6]"},
    {"attention", "f32[2,4,6,4], f32[2,3,6,4], f32[2,3,6,4]",
     "attention: q f32[2, 4, 6, 4] has 4 heads but should have a multiple of the 3 of k f32[2, 3, 6, 4]"},
    {"attention", "f32[2,4,6,4], f32[2,4,6,4], f32[2,4,6,4], f32[6]",
     "attention: the mask is f32[6] but should be [6, 6] or [2 or 1, 4 or 1, 6, 6]"},
    {"rotary", "f32[6,3]", "rotary: x is f32[6, 3] but its last dim should be even and at most 2048"},
    {"mean_squared_error", "f32[6,4], f32[6]",
     "mean_squared_error: operand 1 is f32[6] but operand 0 is f32[6, 4]; they must be equal"},
    {"one_hot", "i32[4]", "one_hot: depth is 0 but must be at least 1; write for example (depth=10)"},
    {"one_hot", "f32[4] (depth=3)", "one_hot: f32 is neither i32 nor i64; cast the operand first"},
    {"clip", "f32[4] (min=2, max=1)", "clip: min=2 is above max=1"},
    {"prelu", "f32[4], f32[2,4]",
     "prelu: slope f32[2, 4] does not broadcast to f32[4]: right-aligned, its dims must be equal to those or "
     "1"},
    {"less", "f32[4], i32[4]", "less: operands 0 and 1 are f32[4] and i32[4]; cast one"},
    {"logical_and", "bool[4], f32[4]", "logical_and: operand 1 is f32[4] but must be bool; compare it first"},
    {"where", "f32[4], f32[4], f32[4]", "where: operand 0 is f32[4] but must be bool; compare it first"},
    {"where", "bool[4], f32[3], f32[4]",
     "where: bool[4] and f32[3] do not broadcast: right-aligned, dims must be equal or 1"},
    {"concat", "f32[4,6], f32[4,5]",
     "concat: operands 0 and 1 are f32[4, 6] and f32[4, 5]; all dims but dim 0 must be equal"},
    {"split", "f32[6] (sizes=[4,4])", "split: sizes=[4, 4] do not add up to the 6 of dim 0 of f32[6]"},
    {"split", "f32[6]", "split: sizes=[] do not add up to the 6 of dim 0 of f32[6]"},
    {"strided_slice", "f32[4,6] (dims=[1], starts=[1,2])",
     "strided_slice: starts=[1, 2] has 2 numbers but 1 dims are meant"},
    {"strided_slice", "f32[4] (starts=[3], stops=[2])",
     "strided_slice: nothing of dim 0 of f32[4] is from 3 to 2"},
    {"strided_slice", "f32[4] (steps=[-1])", "strided_slice: steps=[-1] should be at least 1 each"},
    {"pad", "f32[4] (before=[-1])", "pad: before=[-1], after=[0] and gaps=[0] should be from 0 to 2^40"},
    {"tile", "f32[4,6] (repeats=[2])",
     "tile: repeats=[2] should be a number of at least 1 for each of the 2 dims of f32[4, 6]"},
    {"squeeze", "f32[4,1] (dims=[0])", "squeeze: dim 0 of f32[4, 1] is 4 and not 1"},
    {"squeeze", "f32[4,1]", "squeeze: dims should say which; write for example (dims=[0])"},
    {"expand_dims", "f32[4] (dims=[0,0])", "expand_dims: dims=[0, 0] names dim 0 twice"},
    {"cumsum", "f32[] ", "cumsum: dim -1 does not exist in [], which has 0 dims"},
    {"top_k", "f32[4] (k=5)", "top_k: k is 5 but should be from 1 to the size of the last dim of f32[4]"},
    {"dropout", "f32[4], f32[] (rate=1)", "dropout: rate is 1 but should be at least 0 and less than 1"},
    {"dropout", "f32[4], f32[] (micro_batches=0)", "dropout: micro_batches is 0 but should be at least 1"},
    {"dropout", "f32[4], i32[]", "dropout: operand 1 is i32[] but must be the count of steps, f32[]"},
    {"sgd", "f32[4], f32[4]",
     "sgd: has 2 operands but takes 3; the rate is an attribute, as in (rate=0.1), or the last operand"},
    {"adam", "f32[4], f32[4], f32[4], f32[4], i32[] (rate=0.1)",
     "adam: operand 4 is i32[] but must be the scalar f32[]"},
};

TEST(OpErrors, name_what_was_written_and_what_to_do) {
  for (const Case& c : cases) {
    const Sample sample = parse_sample(c.call);
    const std::vector<Type> types = types_of(sample);
    try {
      infer(find_op(c.op), {types, {}, sample.attributes});
      ADD_FAILURE() << c.op << " " << c.call << " is taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), c.message);
    }
  }
}

TEST(OpErrors, name_a_label_that_is_no_class) {
  const std::vector<Tensor> in{Tensor({DType::f32, {3, 4}}),
                               make_tensor({DType::i32, {3}}, std::vector<double>{0, 4, 1}),
                               Tensor({DType::f32, {3}})};
  try {
    evaluate(find_op("cross_entropy_terms"), in, {});
    ADD_FAILURE() << "the label is taken";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the label of row 1 is 4 but there are 4 classes: 0 to 3");
  }
}

TEST(OpErrors, name_an_index_that_is_no_row) {
  const std::vector<Tensor> in{Tensor({DType::f32, {6, 2}}),
                               make_tensor({DType::i32, {2, 3}}, std::vector<double>{0, 4, 1, 5, 2, 6})};
  try {
    evaluate(find_op("gather"), in, {});
    ADD_FAILURE() << "the index is taken";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the index at [1, 2] is 6 but there are 6 rows: 0 to 5");
  }
}

TEST(OpErrors, count_the_rows_of_the_whole_batch) {
  const OpDef& op = find_op("cross_entropy_terms");
  const std::vector<Type> whole{{DType::f32, {6, 2, 4}}, {DType::i32, {6, 2}}, {DType::f32, {6, 2}}};
  const Rule rule = rule_of(op, {whole, infer(op, {whole, {}, {}}), {}});
  LoopBox box = whole_box(rule);
  box.loops[static_cast<std::size_t>(rule.loop("i0"))] = {3, 3, 6};  // rows 3 to 5 of 6
  const std::vector<Tensor> in{Tensor({DType::f32, {3, 2, 4}}),
                               make_tensor({DType::i32, {3, 2}}, std::vector<double>{0, 0, 0, -1, 0, 0}),
                               Tensor({DType::f32, {3, 2}})};
  try {
    run_kernel(op, in, std::vector<Type>{{DType::f32, {2, 3, 2}}}, {}, rule, box);
    ADD_FAILURE() << "the label is taken";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the label of row 9 is -1 but there are 4 classes: 0 to 3");
  }
}

}  // namespace
}  // namespace shardwright
