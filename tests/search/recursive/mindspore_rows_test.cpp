// The double recursive search beside the costs that MindSpore 2.10 logs, row by row: floors, never to fall.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/mindspore_answers.h"

namespace shardwright {
namespace {

using Rows = std::vector<std::vector<double>>;

/// Costs to cut I, J, K and nothing, of each product.
Rows rows_of(const std::vector<std::string>& log) {
  Rows out;
  const std::string_view begin = "The costs of cutting the I-axis/J-axis/K-axis/no_cut are";
  for (const std::string& line : log) {
    if (!line.starts_with(begin)) continue;
    auto& row = out.emplace_back();
    const std::size_t open = line.find('{');
    const std::string numbers = line.substr(open + 1, line.size() - open - 2);
    for (std::string_view number : split(numbers, ',')) row.push_back(std::stod(std::string(number)));
  }
  return out;
}

bool is_same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return std::abs(x - y) <= 2e-5 * std::max(std::abs(x), std::abs(y)); });
}

std::ptrdiff_t cut_of(const std::vector<double>& row) { return std::ranges::min_element(row) - row.begin(); }

struct Agreement {
  int rows = 0, cuts = 0, all = 0;
  int strategies = 0, products = 0;  // of products, in the plan
};

void compare(const Plan& plan, const MindSporeAnswer& answer, Agreement& out) {
  for (const PlannedOperator& op : plan.stages[0].operators) {
    const auto it = answer.recursive_products.find(op.name);
    if (it == answer.recursive_products.end()) continue;
    ++out.products;
    out.strategies += op.in == it->second;
  }
}

Agreement agreement(SearchOrder order) {
  Agreement out;
  for (const MindSporeAnswer& answer : mindspore_answers()) {
    if (answer.recursive_rows.empty()) continue;
    const SearchOptions options{
        .costs = Costs::symbolic, .order = order, .is_described = true, .writes_log = true};
    const Plan plan =
        make_plan(answer.graph(), {.devices = answer.devices,
                                   .cluster = cluster_called(fmt::format("ascend910b:{}", answer.devices)),
                                   .search = "recursive",
                                   .options = options});
    compare(plan, answer, out);
    const Rows ours = rows_of(plan.log);
    const Rows& theirs = answer.recursive_rows;
    out.all += static_cast<int>(theirs.size());
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      out.rows += is_same(ours[i], theirs[i]);
      out.cuts += cut_of(ours[i]) == cut_of(theirs[i]);
    }
  }
  return out;
}

TEST(MindSporeRows, are_those_of_2_10_with_its_order) {
  const Agreement topology = agreement(SearchOrder::topology), weight = agreement(SearchOrder::weight);
  EXPECT_EQ(topology.all, 700);
  EXPECT_GE(topology.rows, 676);
  EXPECT_GE(topology.cuts, 696);
  EXPECT_EQ(topology.products, 245);
  EXPECT_EQ(topology.strategies, 245);
  EXPECT_EQ(weight.strategies, 245);
  EXPECT_GE(weight.rows, 676);
  EXPECT_GE(weight.cuts, 696);
}

}  // namespace
}  // namespace shardwright
