#include "shardwright/plan/coarse.h"

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

TEST(OnFewAxes, leaves_meshes_of_few_axes_as_they_are) {
  EXPECT_NE(text(4).find("mesh [a=2, b=2, c=2, d=2]"), std::string::npos);
}

}  // namespace
}  // namespace shardwright
