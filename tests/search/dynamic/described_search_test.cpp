// Dynamic programming by the described system's costs, beside what MindSpore 2.10 answers.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/message_of.h"
#include "tests/support/mindspore_answers.h"

namespace shardwright {
namespace {

SearchOptions as_described() { return {.costs = Costs::symbolic, .is_described = true}; }

Plan planned(const Graph& graph, int devices, const SearchOptions& options,
             const std::string& annotations = "{}", const std::string& search = "dynamic") {
  return make_plan(graph, {.devices = devices,
                           .cluster = cluster_called(fmt::format("ascend910b:{}", devices)),
                           .search = search,
                           .options = options,
                           .constraints = parse_annotations(annotations, "test")});
}

/// As the plan's report ends.
double cost_of(const Plan& plan) { return std::stod(plan.compared.substr(plan.compared.rfind("= ") + 2)); }

TEST(DescribedSearch, is_never_dearer_than_mindspore) {
  int count = 0, equal = 0;
  for (const MindSporeAnswer& answer : mindspore_answers()) {
    if (!answer.dynamic) continue;
    const Graph graph = answer.graph();
    const Plan plan = planned(graph, answer.devices, as_described());
    const double ours = cost_of(plan);
    const double theirs = cost_of(planned(graph, answer.devices, as_described(), *answer.dynamic));
    EXPECT_LE(ours, theirs) << answer.network << " on " << answer.devices;
    EXPECT_EQ(plan.compared.find("not all of them"), std::string::npos) << answer.network << plan.compared;
    ++count;
    equal += ours == theirs;
  }
  EXPECT_EQ(count, 51);
  EXPECT_GE(equal, 36);  // there it finds the least, too
}

/// Of three products the seeds' system takes this on 8 devices: nothing, columns, rows.
TEST(DescribedSearch, finds_the_strategies_that_mindspore_finds) {
  int count = 0;
  for (const MindSporeAnswer& answer : mindspore_answers()) {
    if (answer.network != "three_layer_b32" || answer.devices != 8) continue;
    ++count;
    std::vector<std::string> in;
    const Plan plan = planned(answer.graph(), 8, as_described());
    for (const PlannedOperator& op : plan.stages[0].operators)
      if (op.kind == "matmul")
        in.push_back(fmt::format("{}x{} {}x{}", op.in[0][0], op.in[0][1], op.in[1][0], op.in[1][1]));
    EXPECT_EQ(join(in, ", "), "1x1 1x1, 1x1 1x8, 1x8 8x1");
  }
  EXPECT_EQ(count, 1);
}

Graph network(const std::string& name) { return build_model(name).graph; }

/// As in 2.10, not as in 1.x: by default strategies that leave devices out are offered.
TEST(DescribedSearch, may_leave_devices_out_unless_told_otherwise) {
  const Graph graph = MindSporeAnswer{.network = "swiglu_h1024"}.graph();
  SearchOptions all = as_described();
  all.fully_use_devices = true;
  const Plan some_idle = planned(graph, 8, as_described()), all_busy = planned(graph, 8, all);
  const auto rows = [](const Plan& plan) {
    for (const PlannedOperator& op : plan.stages[0].operators)
      if (op.name == "net.gate.matmul") return op.in[0][0];
    return std::int64_t{0};
  };
  EXPECT_EQ(rows(some_idle), 4);
  EXPECT_TRUE(rows(all_busy) == 8 || rows(all_busy) == 1) << rows(all_busy);
  EXPECT_LT(cost_of(some_idle), cost_of(all_busy));
}

TEST(DescribedSearch, plans_any_number_of_devices) {
  const Graph graph = network("matmul_chain:batch=48,widths=1536-1536-1536");
  for (int devices : {3, 6, 12}) {
    const Plan plan = planned(graph, devices, as_described());
    std::int64_t most = 1;
    for (const PlannedOperator& op : plan.stages[0].operators)
      for (const auto& parts : op.in)
        for (std::int64_t p : parts) {
          EXPECT_EQ(devices % p, 0) << op.name;
          most = std::max(most, p);
        }
    EXPECT_EQ(most, devices);
  }
}

TEST(DescribedSearch, keeps_what_fits) {
  const Graph graph = network("matmul_chain:batch=16,widths=1024-1024-1024-1024");
  const Plan free = planned(graph, 4, as_described());
  SearchOptions capped = as_described();
  capped.memory_cap = 8 << 20;  // weights alone are 12 MB
  const Plan sparing = planned(graph, 4, capped);
  EXPECT_GT(cost_of(sparing), cost_of(free));
  bool has_split_weight = false;
  for (const PlannedOperator& op : sparing.stages[0].operators)
    has_split_weight = has_split_weight || (op.kind == "matmul" && op.in[1][0] * op.in[1][1] > 1);
  EXPECT_TRUE(has_split_weight);
}

/// What the first operand of `op` is split into.
std::vector<std::int64_t> parts_of(const Plan& plan, const std::string& op) {
  for (const PlannedOperator& planned : plan.stages[0].operators)
    if (planned.name == op) return planned.in[0];
  return {};
}

const char* const parts_of_relu1 = R"({"relu1": {"in": [[4, 2]]}})";

TEST(DescribedSearch, follows_point_wise_operators_if_asked) {
  const Graph graph = network("three_layer:batch=32");
  SearchOptions follow = as_described();
  follow.elementwise_follow = true;
  const std::vector<std::int64_t> same{4, 2};
  EXPECT_EQ(parts_of(planned(graph, 8, follow, parts_of_relu1), "dense2.matmul"), same);
  EXPECT_NE(parts_of(planned(graph, 8, as_described(), parts_of_relu1), "dense2.matmul"), same);
}

/// However fine --approximation is: tables are their square.
TEST(DescribedSearch, looks_at_256_strategies_at_most) {
  const Graph graph = parse_graph(
      "%x = input f32[128, 128, 128]\n%w = input f32[128, 128, 128]\n%y = matmul %x, %w\noutput %y\n");
  SearchOptions fine = as_described();
  fine.approximates = true;
  fine.approximation = 1e-6;
  const std::string compared = planned(graph, 128, fine).compared;
  EXPECT_EQ(compared, planned(graph, 128, as_described()).compared);
  EXPECT_NE(compared.find("1 operators, 25"), std::string::npos) << compared;  // the unsplit one beside them
}

/// What is alike in all layers is searched first: it takes a fraction of the time.
TEST(DescribedSearch, ends_when_time_is_over_with_the_best_so_far) {
  const Graph graph = network("llama:layers=4");
  SearchOptions late = as_described();
  late.most_seconds = 0;
  const Plan plan = planned(graph, 8, late), unhurried = planned(graph, 8, as_described());
  EXPECT_NE(plan.compared.find("(time is over)"), std::string::npos) << plan.compared;
  EXPECT_EQ(unhurried.compared.find("(time is over)"), std::string::npos) << unhurried.compared;
  const auto operators = [](const Plan& p) { return std::stoi(p.compared); };
  EXPECT_LT(operators(plan), operators(unhurried));
  late.most_seconds = 1e6;
  EXPECT_EQ(planned(graph, 8, late).compared, unhurried.compared);
}

TEST(DescribedSearch, looks_at_fewer_strategies_if_asked) {
  const Graph graph = network("matmul_chain:batch=64,widths=256-512-256");
  SearchOptions some = as_described();
  some.approximates = true;
  const Plan few = planned(graph, 16, some), all = planned(graph, 16, as_described());
  EXPECT_LE(cost_of(all), cost_of(few));
  EXPECT_NE(few.compared.find("not all of them exactly"), std::string::npos) << few.compared;
  EXPECT_EQ(all.compared.find("not all of them exactly"), std::string::npos) << all.compared;
  some.approximation = 1e-3;
  EXPECT_EQ(planned(graph, 16, some).compared, all.compared);  // 1000 of each are all
}

/// Some strategies of each may have none that follow; then all are looked at.
TEST(DynamicSettings, following_comes_before_fewer_strategies) {
  const Graph graph = network("three_layer:batch=64");
  const auto expect_all = [&](SearchOptions options, const std::string& search) {
    options.approximates = options.elementwise_follow = true;
    options.approximation = 1;
    const Plan plan = planned(graph, 8, options, parts_of_relu1, search);
    EXPECT_EQ(parts_of(plan, "dense2.matmul"), (std::vector<std::int64_t>{4, 2})) << search;
    EXPECT_NE(plan.compared.find("; all strategies of each"), std::string::npos) << plan.compared;
  };
  expect_all({}, "dynamic");
  expect_all(as_described(), "dynamic");
  expect_all({}, "integer");
}

/// In seconds, too.
TEST(DynamicSettings, aligned_slices_are_multiples_of_their_size) {
  const Graph graph = network("matmul_chain:batch=64,widths=64-64-64");
  for (SearchOptions options : {SearchOptions{}, as_described()}) {
    options.aligns_slices = true;
    options.slice_size = 32;
    const Plan plan = planned(graph, 8, options);
    for (const PlannedOperator& op : plan.stages[0].operators)
      for (const auto& parts : op.in)
        if (parts.size() == 2) {
          EXPECT_LE(std::ranges::max(parts), 2) << op.name;
        }
  }
}

TEST(DynamicSettings, described_needs_symbolic_costs) {
  EXPECT_EQ(testing::message_of([] { planned(network("matmul_chain"), 2, {.is_described = true}); }),
            "--described: with search dynamic it needs --costs symbolic; add that, or leave --described out");
}

}  // namespace
}  // namespace shardwright
