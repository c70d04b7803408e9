#include "shardwright/explain/coarse.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

std::string text(int most) {
  return to_text(on_few_axes(parse_graph(R"(mesh [a=2, b=2, c=2, d=2]
%x = input f32[16, 16] [a.b, d]
%w = param f32[16, 16] [d, -]
%y = matmul %x, %w {m: a.b, k: d} : f32[16, 16]
output %y
)"),
                             most));
}

TEST(OnFewAxes, joins_neighbours_that_are_always_together) {
  const std::string joined = text(3);
  EXPECT_NE(joined.find("mesh [a/b=4, c=2, d=2]"), joined.npos) << joined;
  EXPECT_NE(joined.find("{m: a/b, k: d}"), joined.npos) << joined;
  EXPECT_NE(joined.find("[a/b, d]"), joined.npos) << joined;
}

/// Partial values (accumulated gradients) lie over the joined axes too, and keep apart what they part.
TEST(OnFewAxes, joins_axes_of_partial_values) {
  const Graph graph = parse_graph(R"(mesh [a=2, b=2, c=2, d=2]
%x = input f32[16, 16] [a.b, c]
%w = param f32[16, 16] [c, a.b]
%y = matmul %x, %w {m: a.b, k: c} : f32[16, 16]
%sum = accumulator f32[16, 16] [-, -] sum(a, b)
output %y
)");
  const std::string joined = to_text(on_few_axes(graph, 2));
  EXPECT_NE(joined.find("mesh [a/b=4, c=2, d=2]"), joined.npos) << joined;
  EXPECT_NE(joined.find("[-, -] sum(a/b)"), joined.npos) << joined;
}

TEST(OnFewAxes, leaves_meshes_of_few_axes_as_they_are) {
  EXPECT_NE(text(4).find("mesh [a=2, b=2, c=2, d=2]"), std::string::npos);
}

}  // namespace
}  // namespace shardwright
