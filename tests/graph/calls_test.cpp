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

}  // namespace
}  // namespace shardwright
