// Checks of the described system's search for chains of products: facts.md 5.9, with the two rules behind 5.5 where
// these change what an own writing of the core without them gave there.
#include <gtest/gtest.h>

#include "shardwright/annotations/annotations.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::recursive {
namespace {

struct Case {
  std::string model;
  int devices;
  double mem_coeff;
  std::string want;  // integers of the products, in the seeds' form
};

Plan described(const std::string& name, int devices, double mem_coeff) {
  Model m = build_model(name);
  add_train_step(m.graph, m.loss, {});
  SearchOptions options{
      .costs = Costs::symbolic, .mem_coeff = mem_coeff, .is_described = true, .writes_log = true};
  return make_plan(m.graph, {.model = name, .devices = devices, .search = "recursive", .options = options});
}

std::string products(const Plan& plan) {
  std::vector<std::string> out;
  for (const PlannedOperator& op : plan.stages[0].operators) {
    if (op.kind != "matmul") continue;
    const auto& x = op.in[0];
    const auto& w = op.in[1];
    out.push_back(fmt::format("(({},{}),({},{}))", x[0], x[1], w[0], w[1]));
  }
  return join(out, " ");
}

class Described : public ::testing::TestWithParam<Case> {};

TEST_P(Described, worked_check) {
  const Case& c = GetParam();
  EXPECT_EQ(products(described(c.model, c.devices, c.mem_coeff)), c.want);
}

const std::string dp = "((8,1),(1,1))", rows2_k4 = "((2,4),(4,1))", rows2_n4 = "((2,1),(1,4))";

INSTANTIATE_TEST_SUITE_P(
    Facts, Described,
    ::testing::Values(Case{"matmul_chain:widths=784-512-512-1,batch=32", 8, 0.1,
                           "((2,1),(1,4)) ((1,8),(8,1)) ((1,1),(1,1))"},
                      Case{"matmul_chain:widths=784-512-512-1,batch=256", 8, 0.1,
                           "((4,2),(2,1)) ((8,1),(1,1)) ((8,1),(1,1))"},
                      Case{"matmul_chain:widths=784-512-512-1,batch=256", 8, 1,
                           rows2_k4 + " " + rows2_n4 + " " + rows2_k4},
                      Case{"matmul_chain:widths=784-512-512-1,batch=256", 8, 4.5,
                           "((1,8),(8,1)) ((1,1),(1,8)) ((1,8),(8,1))"},
                      Case{"matmul_chain:widths=784-512-512-1,batch=256", 8, 0.01,
                           "((4,1),(1,2)) ((1,2),(2,1)) ((1,1),(1,1))"},
                      Case{"matmul_chain:widths=784-512-256-128-64-10,batch=32", 8, 0.1,
                           "((2,4),(4,1)) ((2,4),(4,1)) ((4,2),(2,1)) ((4,2),(2,1)) ((8,1),(1,1))"},
                      Case{"matmul_chain:widths=784-512-256-128-64-10,batch=256", 8, 0.1,
                           "((4,2),(2,1)) ((8,1),(1,1)) ((8,1),(1,1)) ((8,1),(1,1)) ((8,1),(1,1))"},
                      Case{"matmul_chain:widths=784-512-256-128-64-10,batch=32", 8, 1,
                           "((1,8),(8,1)) ((1,1),(1,8)) ((2,4),(4,1)) ((2,1),(1,4)) ((2,4),(4,1))"},
                      Case{"matmul_chain:widths=784-512-512-10,batch=32", 8, 0.1,
                           rows2_k4 + " " + rows2_n4 + " " + rows2_k4},
                      Case{"matmul_chain:widths=784-512-512-10,batch=256", 8, 0.1,
                           "((4,2),(2,1)) ((8,1),(1,1)) ((8,1),(1,1))"},
                      // One square projection of Qwen-7B and of LLaMA2: J, I, J and I, I, I.
                      Case{"matmul_chain:widths=4096-4096,batch=16384", 8, 4.5, rows2_n4},
                      Case{"matmul_chain:widths=4096-4096,batch=4096", 8, 0.1, dp}));

TEST(Symbolic, first_halving_has_the_costs_of_the_worked_check) {
  const std::vector<std::string> log = described("matmul_chain:widths=784-512-512-1,batch=32", 8, 0.1).log;
  std::vector<std::string> costs;
  for (const std::string& line : log)
    if (line.starts_with("The costs of cutting the I-axis/J-axis/K-axis/no_cut"))
      costs.push_back(line.substr(line.find('{')));
  ASSERT_EQ(costs.size(), 9U);  // three products, three halvings, the last product first
  EXPECT_EQ(costs[0], "{25.6, 1.79769e+308, 16, 10.24}");
  EXPECT_EQ(costs[1], "{275251, 270336, 8192, 2.68435e+06}");
  EXPECT_EQ(costs[2], "{282214, 12544, 270336, 2.9465e+06}");
}

TEST(Symbolic, a_loss_of_parts_is_generalised_to_any_number) {  // I loses (p - 1) / p of |w| c: 2/3 of 96
  Model m = build_model("matmul_chain:widths=12-8,batch=9");
  add_train_step(m.graph, m.loss, {});
  SearchOptions options{.costs = Costs::symbolic, .mem_coeff = 1, .writes_log = true};
  const Plan plan = make_plan(m.graph, {.devices = 3, .search = "recursive", .options = options});
  EXPECT_EQ(plan.log[1],
            "If the I-axis is cut, the op-cost is 64, the rest-cost is 0, and the total cost is 64");
}

/// The least of the three costs counts though its dim cannot be cut: J has one column, |a| / 2 = 8.
TEST(Symbolic, described_weighs_no_cut_by_dims_that_cannot_be_cut_too) {
  const std::vector<std::string> log = described("matmul_chain:widths=4-1,batch=4", 2, 100).log;
  EXPECT_NE(log[log.size() - 2 - (log.back().starts_with("To cut") ? 1 : 0)].find(", 1.79769e+308, 2, 0.16}"),
            std::string::npos)
      << join(log, "\n");
}

/// An operator that was cut is no more compared with its neighbour: moving is charged on the first axis alone.
TEST(Symbolic, described_moves_freely_what_was_cut) {
  const auto charged = [](bool is_described) {
    Model m = build_model("matmul_chain:widths=784-512-512-1,batch=32");
    add_train_step(m.graph, m.loss, {});
    SearchOptions options{
        .costs = Costs::symbolic, .mem_coeff = 0.1, .is_described = is_described, .writes_log = true};
    int axis = 0;
    std::vector<int> out(3, 0);
    for (const std::string& line :
         make_plan(m.graph, {.devices = 8, .search = "recursive", .options = options}).log) {
      if (line.starts_with("------------Node_name: matmul3")) ++axis;
      if (line.starts_with("If") && line.find("the rest-cost is 0,") == std::string::npos) ++out.at(axis - 1);
    }
    return out;
  };
  EXPECT_GT(charged(true)[0], 0);
  EXPECT_LT(charged(true)[2], charged(false)[2]);
}

TEST(Symbolic, described_cuts_convolutions_by_batch_alone) {
  Model m = build_model("resnet18:image=32,width=16,batch=2");
  add_train_step(m.graph, m.loss, {});
  SearchOptions options{.costs = Costs::symbolic, .mem_coeff = 100, .is_described = true};
  const Plan plan = make_plan(m.graph, {.devices = 8, .search = "recursive", .options = options});
  int convolutions = 0;
  for (const PlannedOperator& op : plan.stages[0].operators) {
    if (op.kind != "conv2d") continue;
    ++convolutions;
    EXPECT_EQ(op.in[0], (std::vector<std::int64_t>{2, 1, 1, 1})) << op.name;
    EXPECT_EQ(op.in[1], (std::vector<std::int64_t>{1, 1, 1, 1})) << op.name;
  }
  EXPECT_GT(convolutions, 10);
}

TEST(Symbolic, described_refuses_what_the_described_system_does) {
  for (int devices : {6, 2048})
    EXPECT_THROW(described("matmul_chain:widths=4096-4096,batch=4096", devices, 0.1), Error);
}

TEST(Symbolic, weight_order_takes_the_heaviest_first) {
  const auto first = [&](SearchOrder order, const std::string& name) {
    SearchOptions options{.costs = Costs::symbolic, .order = order, .writes_log = true};
    Model model = build_model(name);
    add_train_step(model.graph, model.loss, {});
    return make_plan(model.graph, {.devices = 2, .search = "recursive", .options = options}).log.front();
  };
  const std::string heavy_first = "matmul_chain:widths=1024-1024-16,batch=16";
  EXPECT_EQ(first(SearchOrder::topology, heavy_first), "------------Node_name: matmul2 -------------");
  EXPECT_EQ(first(SearchOrder::weight, heavy_first), "------------Node_name: matmul1 -------------");
}

}  // namespace
}  // namespace shardwright::recursive
