// The CPU backend's attention, in blocks of queries and keys, against the plain loops of the operator.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/compare.h"  // before what opens shardwright::testing

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "tests/support/allocations.h"
#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

/// Neither whole blocks nor whole strips of features; several heads for each of k and v.
struct Case {
  const char* name;
  std::int64_t queries, keys, depth, width;
  Shape mask;
  Attributes attributes;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> cases{
    {"all_keys", 37, 150, 20, 33, {}, {}},
    {"whole_blocks", 32, 128, 64, 64, {}, {}},
    {"causal", 70, 130, 24, 16, {}, {{"causal", true}}},
    {"more_queries_than_keys", 90, 70, 16, 17, {}, {{"causal", true}}},
    {"alibi", 33, 65, 70, 8, {}, {{"alibi", true}, {"causal", true}, {"scale", 0.3}}},
    {"masked", 18, 67, 12, 20, {18, 67}, {}},
    {"mask_of_each_head", 18, 67, 12, 20, {2, 6, 18, 67}, {{"causal", true}}},
};

class CpuAttention : public ::testing::TestWithParam<Case> {};

Tensor reals(const Type& type, int seed) {
  std::vector<double> values(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7919 + static_cast<std::size_t>(seed) * 104729) % 1009) / 504.5 - 1;
  return make_tensor(type, values);
}

void compare(const OpDef& op, std::vector<Tensor> in, const Attributes& attributes, double tolerance) {
  const std::vector<Tensor> want = evaluate(op, in, attributes);
  std::vector<Tensor> got;
  std::vector<Type> operand_types, result_types;
  std::vector<TensorView> operands, results;
  for (const Tensor& t : in) operand_types.push_back(t.type());
  for (const Tensor& t : want) result_types.push_back(t.type());
  for (const Type& t : result_types) got.emplace_back(t);
  for (Tensor& t : in) operands.push_back(t.view());
  for (Tensor& t : got) results.push_back(t.view());
  const Rule rule = rule_of(op, {operand_types, result_types, attributes});
  const LoopBox box = whole_box(rule);
  const auto backend = cpu_backend();
  const PreparedKernel kernel = backend->prepare(op, {operands, results, attributes, rule, box});
  kernel();
  const std::int64_t before = testing::allocations_of_this_thread();
  kernel();
  EXPECT_EQ(testing::allocations_of_this_thread(), before);
  for (std::size_t r = 0; r < want.size(); ++r)
    EXPECT_TRUE(is_close(got[r], want[r], tolerance))
        << op.name << " in " << name_of(in[0].dtype()) << ", result " << r;
}

TEST_P(CpuAttention, is_that_of_plain_loops) {
  const Case& c = GetParam();
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::f64, 1e-12}, {DType::f32, 2e-5}, {DType::f16, 5e-3}, {DType::bf16, 4e-2}}) {
    std::vector<Tensor> in{reals({dtype, {2, 6, c.queries, c.depth}}, 1),
                           reals({dtype, {2, 2, c.keys, c.depth}}, 2),
                           reals({dtype, {2, 2, c.keys, c.width}}, 3)};
    if (!c.mask.empty()) in.push_back(reals({dtype, c.mask}, 4));
    compare(find_op("attention"), in, c.attributes, tolerance);
    const Tensor y = evaluate(find_op("attention"), in, c.attributes)[0];
    in.insert(in.begin(), reals(y.type(), 5));
    in.insert(in.begin() + 4, y);
    compare(find_op("attention_grad"), in, c.attributes, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CpuAttention, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace shardwright
