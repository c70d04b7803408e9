// Fused programs against the oracle, which runs node by node on whole tensors.

#include <gtest/gtest.h>

#include <random>

#include "tests/support/compare.h"  // before what opens shardwright::testing

#include "shardwright/passes/optimize.h"
#include "shardwright/runtime/executor.h"
#include "tests/support/allocations.h"
#include "tests/support/device.h"
#include "tests/support/evaluate.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

Program fused(std::string_view text) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0]);
  p = fuse_pointwise(std::move(p), {redistributor});
  return assign_buffers(std::move(p), {redistributor});
}

int fused_nodes(const Program& p) {
  return static_cast<int>(
      std::count_if(p.graph.nodes.begin(), p.graph.nodes.end(), [](const Node& n) { return n.is_fused; }));
}

Tensor small(Type type, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<double> values(static_cast<std::size_t>(element_count(type.shape)));
  for (double& v : values) v = static_cast<int>(random() % 7) - 3;
  return make_tensor(std::move(type), values);
}

/// Runs two steps on one rank and compares outputs and new leaves with the oracle.
void expect_oracle(std::string_view text, double tolerance = 0) {
  const Program p = fused(text);
  std::map<std::string, Tensor> leaves;
  for (const Value& v : p.graph.values)
    if (p.graph.node(v.producer).op->kind != OpKind::compute)
      leaves[v.name] = small(v.type, static_cast<int>(leaves.size()));
  auto communicators = testing::device_communicators(1);
  const auto backend = testing::device();
  backend->enter_thread();
  const Pipeline pipeline = p;
  Executor executor(pipeline, *backend, *communicators[0]);
  for (int step = 0; step < 2; ++step) {
    for (const auto& [name, tensor] : leaves)
      testing::write(*backend, executor.view(0, p.graph.find(name)), tensor);
    const std::vector<Tensor> want = evaluate(p.graph, leaves);
    const std::int64_t before = testing::allocations_of_this_thread();
    executor.run();
    // A step allocates nothing of ours; oneDNN's primitives for batches and for bf16 do.
    const bool has_primitive = text.find("40, 30, 50") != std::string_view::npos ||
                               text.find("input bf16[30, 40]") != std::string_view::npos;
    if (step > 0 && !has_primitive) {
      EXPECT_EQ(testing::allocations_of_this_thread(), before) << text;
    }
    const auto expect = [&](ValueId computed, ValueId at) {
      const Tensor have = testing::read(*backend, executor.view(0, at));
      EXPECT_TRUE(is_close(have, want[static_cast<std::size_t>(computed.index)], tolerance))
          << p.graph.value(computed).name << " in\n"
          << to_text(p.graph);
    };
    for (ValueId v : p.graph.outputs) expect(v, v);
    for (const Update& u : p.graph.updates) expect(u.value, u.leaf);
  }
}

struct Case {
  const char* name;
  const char* text;
  int fused;  // nodes that must run behind another
};

const Case cases[] = {
    {"bias_and_activation", R"(mesh []
%x = input f32[300, 40]
%w = param f32[40, 500]
%b = param f32[500]
%1 = matmul %x, %w
%2 = add %1, %b
%3 = relu %2
output %3
)",
     2},
    {"kept_before_the_activation", R"(mesh []
%x = input f32[300, 40]
%w = param f32[40, 500]
%b = param f32[500]
%1 = matmul %x, %w
%2 = add %1, %b
%3 = relu %2
%4 = matmul %3, %w (transpose_b=true)
output %1
output %3
output %4
)",
     2},
    {"update_behind_the_gradient", R"(mesh []
%x = input f32[8, 700]
%w = param f32[700, 300]
%m = state f32[700, 300]
%y = matmul %x, %w
backward:
%dy = neg %y
%dw = outer_product %x, %dy
%dx = matmul %dy, %w (transpose_b=true)
%z = square %dx
update:
%w2, %m2 = momentum %w, %dw, %m (rate=0.5)
output %z
update %w <- %w2
update %m <- %m2
)",
     2},
    {"update_in_doubles", R"(mesh []
%x = input f64[2, 9, 300]
%w = param f64[300, 200]
%y = matmul %x, %w
update:
%dw = outer_product %x, %y
%w2 = sgd %w, %dw (rate=0.5)
output %y
update %w <- %w2
)",
     1},
    {"behind_a_reference_kernel", R"(mesh []
%x = input i32[30, 40]
%w = input i32[40, 50]
%1 = matmul %x, %w
%2 = add %1, %1
output %2
)",
     1},
    {"behind_a_product_in_bf16", R"(mesh []
%x = input bf16[30, 40]
%w = param bf16[40, 50]
%1 = matmul %x, %w
%2 = relu %1
output %2
)",
     1},
    {"behind_panels_in_bf16", R"(mesh []
%x = input bf16[30, 40]
%w = param bf16[40, 300]
%v = param bf16[300, 2900]
%1 = matmul %x, %w
%2 = outer_product %1, %x
%3 = matmul %2, %1 (transpose_a=true, transpose_b=true)
%4 = matmul %w, %v
%5 = outer_product %4, %4
%6 = cast %5 (to=f32)
%7 = relu %3
output %6
output %7
)",
     2},
    {"behind_a_product_in_f16", R"(mesh []
%x = input f16[300, 40]
%w = param f16[40, 500]
%1 = matmul %x, %w
%2 = relu %1
%3 = cast %2 (to=f32)
output %3
)",
     2},
    {"behind_a_batch", R"(mesh []
%x = input f32[40, 30, 50]
%w = input f32[40, 50, 60]
%m = input f32[30, 60]
%1 = matmul %x, %w
%2 = mul %1, %m
%3 = scale %2 (factor=0.5)
output %3
)",
     2},
    {"columns_rows_and_scalars", R"(mesh []
%x = input f32[7, 300]
%r = input f32[300]
%c = input f32[7, 1]
%s = input f32[]
%1 = add %x, %r
%2 = mul %1, %c
%3 = sub %s, %2
%4 = maximum %3, %x
output %4
)",
     3},
    {"middle_dims", R"(mesh []
%x = input f32[3, 5, 7, 11]
%a = input f32[5, 1, 11]
%b = input f32[3, 1, 7, 1]
%1 = add %x, %a
%2 = mul %1, %b
%3 = mul %2, %2
output %3
)",
     2},
    {"several_results_kept", R"(mesh []
%x = input f32[5000]
%y = input f32[5000]
%1 = add %x, %y
%2 = mul %1, %y
%3 = sub %2, %1
%4 = neg %3
output %1
output %3
output %4
)",
     3},
    {"element_types_change", R"(mesh []
%x = input f32[3000]
%1 = scale %x (factor=2)
%2 = cast %1 (to=f64)
%3 = square %2
%4 = cast %3 (to=bf16)
%5 = neg %4
output %5
)",
     4},
    {"a_leaf_read_before_its_update", R"(mesh []
%w = param f32[4000]
%x = input f32[4000]
update:
%1 = mul %w, %x
%2 = add %1, %w
%w2 = sub %w, %2
output %2
update %w <- %w2
)",
     2},
    {"two_leaves_change_places", R"(mesh []
%a = param f32[2000]
%b = param f32[2000]
update:
%a2 = add %a, %b
%b2 = sub %a, %b
update %a <- %a2
update %b <- %b2
)",
     0},
    {"empty", R"(mesh []
%x = input f32[4]
%1 = neg %x
%2 = square %1
output %2
)",
     1},
};

class Fused : public ::testing::TestWithParam<Case> {};

TEST_P(Fused, equals_the_oracle) {
  EXPECT_EQ(fused_nodes(fused(GetParam().text)), GetParam().fused);
  expect_oracle(GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Programs, Fused, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

/// Random point-wise programs over one shape, with broadcast operands, dead ends, outputs and updates.
std::string random_program(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int rows = 1 + pick(40), columns = 1 + pick(300);
  const std::string whole = fmt::format("f32[{}, {}]", rows, columns);
  std::string out = "mesh []\n";
  out += fmt::format("%v0 = input {0}\n%v1 = param {0}\n%v2 = param {0}\n", whole);
  out += fmt::format("%r = input f32[{}]\n%c = input f32[{}, 1]\n%s = input f32[]\n", columns, rows);
  int values = 3;
  if (pick(2))
    out += fmt::format("%k = input f32[{0}, 5]\n%l = input f32[5, {1}]\n%v{2} = matmul %k, %l\n", rows,
                       columns, values++);
  const int nodes = 2 + pick(14);
  for (int i = 0; i < nodes; ++i) {
    const std::vector<std::string> operands{fmt::format("%v{}", pick(values)), "%r", "%c", "%s"};
    const std::string a = operands[0], b = pick(3) ? fmt::format("%v{}", pick(values))
                                                   : operands[static_cast<std::size_t>(pick(4))];
    const char* binary[] = {"add", "sub", "maximum", "minimum"};
    const char* unary[] = {"neg", "relu", "abs", "sign"};
    out += pick(3) ? fmt::format("%v{} = {} {}, {}\n", values, binary[pick(4)], a, b)
                   : fmt::format("%v{} = {} {}\n", values, unary[pick(4)], a);
    ++values;
  }
  for (int i = 0; i < 1 + pick(3); ++i) out += fmt::format("output %v{}\n", 3 + (values - 3) * i / 3);
  out += fmt::format("update %v1 <- %v{}\n", values - 1);
  if (pick(2)) out += fmt::format("update %v2 <- %v{}\n", 3 + pick(values - 3));
  return out;
}

TEST(FusedPrograms, equal_the_oracle) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    expect_oracle(random_program(random));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace shardwright
