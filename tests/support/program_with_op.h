// A program in which one operator does what a test wants of it.
#pragma once

#include "tests/support/program.h"

namespace shardwright::testing {

/// On four ranks, `op` of their parts of x; then everybody gathers.
inline Program program_with(const OpDef& op) {
  Program p = program_of(R"(
mesh [dp=4]
%x = input f32[1, 2] as [4, 2] [dp, -]
%1 = fill (shape=[4, 2], value=2) {i0: dp} : f32[1, 2] as [4, 2] [dp, -]
%y = all_gather %1 dim 0 over dp : f32[4, 2] as [4, 2] [-, -]
output %y
)");
  Node& node = p.graph.node({1});
  node.op = &op;
  node.operands = {p.graph.find("x")};
  node.attributes = {};
  return p;
}

}  // namespace shardwright::testing
