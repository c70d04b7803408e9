#include "shardwright/graph/calls.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

TEST(Calls, of_a_program_are_told_apart_by_whole_tensors) {
  const Graph graph = parse_program_graph(R"(
mesh [a=2]
%x = input f32[4] as [8] [a]
%y = input f32[4] as [4] [-]
%u = relu %x {i0: a} : f32[4] as [8] [a]
%v = relu %y {} : f32[4] as [4] [-]
%w = relu %u {i0: a} : f32[4] as [8] [a]
output %v
output %w
)");
  const Calls calls(graph);
  const auto call_of = [&](std::string_view name) {
    return calls.of(graph.value(graph.find(name)).producer);
  };
  EXPECT_EQ(call_of("u"), call_of("w"));
  ASSERT_NE(call_of("u"), call_of("v"));
  EXPECT_EQ(calls.rule(call_of("u")).loops[0].size, 8);
  EXPECT_EQ(calls.rule(call_of("v")).loops[0].size, 4);
}

TEST(Calls, of_equal_types_share_a_rule_across_graphs) {
  const auto rule_of_y = [](const std::string& operands, std::string_view call) {
    const Graph graph = parse_graph(fmt::format("{}%y = {}\noutput %y\n", operands, call));
    return shared_rule_of(graph, graph.node(graph.value(graph.find("y")).producer));
  };
  const std::string product = "matmul %x, %w";
  const auto operands = [](std::string_view type, int rows) {
    return fmt::format("%x = input {0}[{1}, 6]\n%w = input {0}[6, 6]\n", type, rows);
  };
  const auto rule = rule_of_y(operands("f32", 4), product);
  EXPECT_EQ(rule, rule_of_y("%v = input f32[2]\n" + operands("f32", 4), product));
  EXPECT_NE(rule, rule_of_y(operands("f32", 8), product));
  EXPECT_NE(rule, rule_of_y(operands("f64", 4), product));
  EXPECT_NE(rule, rule_of_y(operands("f32", 4), product + " (transpose_b=true)"));
  EXPECT_NE(rule, rule_of_y(operands("f32", 4), "relu %x"));
}

/// More than are kept: those that are held stay as they are.
TEST(Calls, that_are_many_leave_those_that_are_held) {
  const auto graph_of = [](int rows) {
    return parse_graph(fmt::format("%x = input f32[{}]\n%y = relu %x\noutput %y\n", rows));
  };
  const Graph first = graph_of(3);
  const Calls calls(first);
  for (int rows = 4; rows < 9000; ++rows) Calls(graph_of(rows));
  EXPECT_EQ(calls.rule(first.value(first.find("y")).producer).loops[0].size, 3);
  const Calls again(first);
  EXPECT_EQ(again.rule(first.value(first.find("y")).producer).loops[0].size, 3);
}

}  // namespace
}  // namespace shardwright
