// The CPU backend's own kernels against the reference kernels.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

Tensor small_integers(const Type& type, int seed) {
  std::vector<double> values(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 31 + static_cast<std::size_t>(seed)) % 7) - 3;
  return make_tensor(type, values);
}

struct Case {
  const char* name;
  const char* op;
  Shape a;
  Shape b;
  Attributes attributes;
};

const std::vector<Case> cases{
    {"plain", "matmul", {33, 70}, {70, 21}, {}},
    {"deep", "matmul", {9, 600}, {600, 530}, {}},
    {"transposed_a", "matmul", {70, 33}, {70, 21}, {{"transpose_a", true}}},
    {"transposed_b", "matmul", {33, 70}, {21, 70}, {{"transpose_b", true}}},
    {"both", "matmul", {70, 33}, {21, 70}, {{"transpose_a", true}, {"transpose_b", true}}},
    {"batched", "matmul", {2, 3, 5, 7}, {2, 3, 7, 4}, {}},
    {"batched_transposed_a", "matmul", {6, 7, 5}, {6, 7, 4}, {{"transpose_a", true}}},
    {"batched_transposed_b", "matmul", {6, 5, 7}, {6, 4, 7}, {{"transpose_b", true}}},
    {"shared_b", "matmul", {3, 5, 7}, {7, 4}, {}},
    {"shared_b_transposed_a", "matmul", {3, 7, 5}, {7, 4}, {{"transpose_a", true}}},
    {"shared_b_transposed_both", "matmul", {3, 7, 5}, {4, 7}, {{"transpose_a", true}, {"transpose_b", true}}},
    {"one", "matmul", {1, 1}, {1, 1}, {}},
    {"no_rows", "matmul", {0, 7}, {7, 4}, {}},
    {"nothing_summed", "matmul", {3, 0}, {0, 4}, {}},
    {"stretched_a", "matmul", {5, 7}, {3, 7, 4}, {}},
    {"stretched_both", "matmul", {2, 1, 5, 7}, {3, 7, 4}, {}},
    {"stretched_transposed_b", "matmul", {2, 3, 5, 7}, {3, 4, 7}, {{"transpose_b", true}}},
    {"several_blocks", "matmul", {300, 530}, {530, 270}, {}},
    {"several_blocks_transposed",
     "matmul",
     {530, 300},
     {270, 530},
     {{"transpose_a", true}, {"transpose_b", true}}},
    {"batches_of_blocks", "matmul", {2, 270, 300}, {2, 300, 17}, {}},
    {"outer", "outer_product", {3, 40, 9}, {3, 40, 12}, {}},
    {"outer_of_rows", "outer_product", {17, 9}, {17, 12}, {}},
};

class CpuKernels : public ::testing::TestWithParam<Case> {};

/// The backend's kernel and the reference on small integers, of which all sums are exact.
void compare(const Case& c, DType dtype) {
  const OpDef& op = find_op(c.op);
  const auto backend = cpu_backend();
  std::vector<Tensor> in{small_integers({dtype, c.a}, 1), small_integers({dtype, c.b}, 4)};
  const std::vector<Type> types{in[0].type(), in[1].type()};
  const std::vector<Type> result_types = infer(op, {types, {}, c.attributes});
  Tensor want(result_types[0]), have(result_types[0]);
  const Rule rule = rule_of(op, {types, result_types, c.attributes});
  const LoopBox loops;
  const std::vector<TensorView> operands{in[0].view(), in[1].view()};
  const std::vector<TensorView> wanted{want.view()}, got{have.view()};
  for (std::byte& b : have.bytes()) b = std::byte{1};
  op.kernel({operands, wanted, c.attributes, rule, loops});
  const PreparedKernel kernel = backend->prepare(op, {operands, got, c.attributes, rule, loops});
  for (int run = 0; run < 2; ++run) kernel();
  EXPECT_EQ(to_doubles(have), to_doubles(want)) << name_of(dtype);
}

TEST_P(CpuKernels, equal_the_reference) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) compare(GetParam(), dtype);
}

/// Where no instructions multiply bf16 it goes through f32, as f16 always does.
TEST_P(CpuKernels, equal_the_reference_on_older_machines) {
  use_instruction_set(InstructionSet::plain);
  for (DType dtype : {DType::bf16, DType::f16}) compare(GetParam(), dtype);
  use_instruction_set(best_instruction_set());
}

INSTANTIATE_TEST_SUITE_P(Products, CpuKernels, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

/// Whole tiles and what is left of them, in several panels.
TEST(CpuTransposition, equals_the_reference) {
  struct Transposed {
    Shape shape;
    std::vector<std::int64_t> dims;
  };
  const std::vector<Transposed> transposed{
      {{70, 600}, {1, 0}},       {{64, 256}, {1, 0}},      {{3, 65, 4, 40}, {0, 2, 1, 3}},
      {{2, 40, 300}, {2, 0, 1}}, {{5, 1, 130}, {2, 1, 0}}, {{7, 0, 3}, {2, 1, 0}}};
  const OpDef& op = find_op("transpose");
  const auto backend = cpu_backend();
  for (const auto& [shape, dims] : transposed)
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8, DType::i64}) {
      const Attributes attributes{{"dims", dims}};
      Tensor in = small_integers({dtype, shape}, 2);
      const std::vector<Type> types{in.type()}, result_types = infer(op, {types, {}, attributes});
      Tensor want(result_types[0]), have(result_types[0]);
      const std::vector<TensorView> operands{in.view()}, wanted{want.view()}, got{have.view()};
      const Rule rule = rule_of(op, {types, result_types, attributes});
      const LoopBox loops;
      op.kernel({operands, wanted, attributes, rule, loops});
      backend->prepare(op, {operands, got, attributes, rule, loops})();
      EXPECT_EQ(have, want) << name_of(dtype) << " " << to_text(shape);
    }
}

TEST(CpuBackend, allocates_aligned_zeros) {
  const auto backend = cpu_backend();
  for (std::int64_t bytes : {0, 1, 100, 5 << 20}) {
    const Memory memory = backend->allocate(bytes);
    EXPECT_EQ(memory.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    for (std::int64_t i = 0; i < bytes; i += 4096) EXPECT_EQ(memory.data()[i], std::byte{0});
  }
}

TEST(CpuBackend, names_an_operator_without_a_kernel) {
  const OpDef op{.name = "riddle", .doc = "", .rule = "... -> ..."};
  const Rule rule;
  const LoopBox loops;
  const Attributes attributes;
  try {
    cpu_backend()->prepare(op, {{}, {}, attributes, rule, loops});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "operator riddle has no kernel");
  }
}

}  // namespace
}  // namespace shardwright
