// Which splits each operator offers: at least those that the described system's operators have.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardwright/graph/op.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

struct Case {
  std::string op;
  std::string sample;
  std::string offered;  // loop dims and linear groups that can be split over an axis of size 2, by name
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op << " " << c.sample; }

const std::vector<Case> cases = {
    // Matrix products: batch, rows, contracted dim, columns.
    {"matmul", "f32[4,6], f32[6,12]", "m k n +0 +1"},
    {"matmul", "f32[6,4], f32[12,6] (transpose_a=true, transpose_b=true)", "k m n +0 +1"},
    {"matmul", "f32[2,4,6], f32[2,6,4]", "i0 m k n +0 +1"},
    {"outer_product", "f32[2,6,4], f32[2,6,12]", "i0 i1 k n +0 +1"},
    // Element-wise: any dim; broadcast: any dim of the result, a stretched one not in its operand.
    {"relu", "f32[4,6]", "i0 i1"},
    {"gelu", "f32[2,6,4]", "i0 i1 i2"},
    {"cast", "f32[4,6] (to=f16)", "i0 i1"},
    {"sqrt", "f32[4,6]", "i0 i1"},
    {"relu_grad", "f32[4,6], f32[4,6]", "i0 i1 +0"},
    {"add", "f32[4,6], f32[6]", "i0 i1 +0"},
    {"mul", "f32[4,1], f32[1,6]", "i0 i1 +0 +1"},
    {"div", "f32[], f32[4,6]", "i0 i1 +0"},
    {"maximum", "f32[2,6,4], f32[6,1]", "i0 i1 i2"},
    {"sum", "f32[4,6], f32[4,6], f32[4,6]", "i0 i1 +0"},
    {"broadcast", "f32[6] (shape=[4,6])", "i0 i1 +0"},
    // Reductions: any dim, reduced or not.
    {"reduce_sum", "f32[4,6] (dims=[1])", "i0 i1 +0"},
    {"reduce_mean", "f32[4,6]", "i0 i1 +0"},
    {"reduce_max", "f32[4,6] (dims=[0], keep=true)", "i0 i1"},
    {"mean_squared_error", "f32[4,6], f32[4,6]", "i0 i1"},
    {"mean_absolute_error_grad", "f32[], f32[4,6], f32[4,6]", "i0 i1 +0"},
    // Any dim but the one that is normalised.
    {"softmax", "f32[2,4,6]", "i0 i1"},
    {"log_softmax", "f32[2,4,6] (dim=1)", "i0 i2"},
    {"softmax_grad", "f32[2,6], f32[2,6]", "i0 +0"},
    {"layer_norm", "f32[6,2,4], f32[2,4], f32[2,4]", "i0 +0"},
    {"layer_norm_grad", "f32[2,6,4], f32[2,6,4], f32[4]", "i0 i1 +0"},
    {"rms_norm", "f32[2,6,4], f32[4]", "i0 i1 +0"},
    {"group_norm", "f32[2,6,4], f32[6], f32[6] (groups=3)", "i0 +0"},
    // Any dim: statistics are summed before they are used, and so are the terms of a cross entropy.
    {"batch_moments", "f32[6,4,2,2]", "i0 c i2 i3"},
    {"batch_norm", "f32[6,4,2,2], f32[4], f32[4], f32[2,4]", "i0 c i2 i3 +0"},
    {"batch_norm_grad", "f32[4,6], f32[4,6], f32[6], f32[2,6], f32[6], f32[6]", "i0 c +0 +1"},
    {"cross_entropy_terms", "f32[4,6], i32[4]<6, f32[4]", "i0 c"},
    {"cross_entropy_terms_grad", "f32[2,4], f32[4,6], i32[4]<6, f32[4]", "i0 c +0"},
    // A table by rows, columns or indices.
    {"gather", "f32[12,4], i32[2,6]<12", "v e0 i0 i1 +0"},
    {"unsorted_segment_sum", "f32[2,6,4], i32[2,6]<6 (count=12)", "i0 i1 e0 v +0"},
    {"scatter_add", "f32[12,4], i32[6]<12, f32[6,4]", "v e0 +0"},
    // Batch, heads with those of k and v, queries, and features of v.
    {"attention", "f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,8]", "b h s e +0"},
    {"rotary", "f32[2,2,6,4]", "i0 i1 s +0"},
    // Moves of data.
    {"transpose", "f32[2,6,4] (dims=[1,2,0])", "i0 i1 i2 +0"},
    {"reshape", "f32[4,6] (shape=[2,2,6])", "i0 i2 +0"},
    {"reshape", "f32[2,6,4] (shape=[2,24])", "i0 i1 +0"},
    {"flatten", "f32[4,2,3]", "i0 i1 +0"},
    {"one_hot", "i32[4] (depth=6)", "i0 v"},
    // Updates: all dims are free, so the states can be sharded.
    {"sgd", "f32[4,6], f32[4,6] (rate=0.1)", "i0 i1"},
    {"momentum", "f32[4,6], f32[4,6], f32[4,6] (rate=0.1)", "i0 i1"},
    {"adam", "f32[4,6], f32[4,6], f32[4,6], f32[4,6], f32[] (rate=0.1)", "i0 i1"},
    {"adamw", "f32[4], f32[4], f32[4], f32[4], f32[], f64[]", "i0"},
};

Rule rule_of_case(const Case& c) {
  const Sample sample = parse_sample(c.sample);
  const std::vector<Type> types = types_of(sample);
  const OpDef& op = find_op(c.op);
  const std::vector<Type> results = infer(op, {types, {}, sample.attributes});
  return rule_of(op, {types, results, sample.attributes});
}

class Rules : public testing::TestWithParam<Case> {};

TEST_P(Rules, offer_these_splits_and_no_others) {
  const Rule rule = rule_of_case(GetParam());
  const Mesh mesh{{{"a", 2}}};
  std::set<std::string> offered;
  for (const Strategy& s : legal_strategies(rule, mesh)) {
    for (std::size_t l = 0; l < rule.loops.size(); ++l)
      if (!s.loops[l].empty()) offered.insert(rule.loops[l].name);
    for (std::size_t g = 0; g < rule.linear.size(); ++g)
      if (!s.linear[g].empty()) offered.insert(fmt::format("+{}", g));
  }
  std::set<std::string> wanted;
  for (std::string_view name : split(GetParam().offered, ' ')) wanted.emplace(name);
  EXPECT_EQ(offered, wanted);
}

INSTANTIATE_TEST_SUITE_P(Ops, Rules, testing::ValuesIn(cases),
                         [](const auto& c) { return fmt::format("{}_{}", c.param.op, c.index); });

struct ReshapeCase {
  Shape from, to;
  std::string rule;
};

TEST(ReshapeRule, takes_the_boundaries_of_both_shapes_as_loop_dims) {
  const std::vector<ReshapeCase> table = {
      {{4, 6}, {24}, "i0 i1 -> (i0 i1)"},
      {{24}, {4, 6}, "(i0 i1) -> i0 i1"},
      {{4, 6}, {8, 3}, "i0 (i1 i2) -> (i0 i1) i2"},
      {{6, 4}, {4, 6}, "i0^ i3^ -> i1^ i2^"},
      {{2, 6, 4, 7}, {2, 4, 6, 7}, "i0 i1^ i4^ i5 -> i0 i2^ i3^ i5"},
      {{2, 9, 2}, {4, 9}, "i0 i1^ i4^ -> (i0 i2^) i3^"},
      {{1, 6, 1, 4}, {6, 4}, "1 i0 1 i1 -> i0 i1"},
      {{}, {1, 1}, ". -> 1 1"},
      {{0, 4}, {2, 0}, "i0^ i1^ -> i2^ i3^"},
  };
  for (const ReshapeCase& c : table) {
    const std::vector<Type> x{{DType::f32, c.from}}, y{{DType::f32, c.to}};
    EXPECT_EQ(find_op("reshape").rule_for({x, y, {}}), c.rule);
    EXPECT_EQ(result_shapes(rule_of(find_op("reshape"), {x, y, {}}))[0], c.to) << c.rule;
  }
}

}  // namespace
}  // namespace shardwright
