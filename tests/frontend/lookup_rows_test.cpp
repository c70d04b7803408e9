#include "shardwright/frontend/lookup_rows.h"

#include <gtest/gtest.h>

#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

TEST(LookupRows, are_those_of_the_smallest_table_wherever_integers_go) {
  const Graph graph = parse_graph(R"(
%words = input i64[4, 6]
%kinds = input i32[4, 6]
%pairs = input i64[4, 2]
%label = input i32[4]
%many = param f32[100, 8]
%few = param f32[2, 8]
%columns = param f32[8, 7]
%bags = input i32[4, 3]
%table = param f32[9, 8]
%w = gather %many, %words
%b = lookup %table, %bags
%words_or_ids = input i64[4, 3]
%rows = hash %words_or_ids (rows=9)
%h = lookup %table, %rows
%flat = reshape %kinds (shape=[24])
%wide = cast %flat (to=i64)
%k = gather %few, %wide
%first = strided_slice %pairs (dims=[1], starts=[0], stops=[1], steps=[1])
%both = concat %first, %pairs (dim=1)
%c = gather %columns, %both (dim=-1)
%again = gather %many, %pairs
%sum = add %label, %label
output %w
output %b
output %h
output %k
output %c
output %again
output %sum
)");
  EXPECT_EQ(lookup_rows(graph),
            (std::map<std::string, LookedUp>{
                {"words", {100}},
                {"kinds", {2}},
                {"pairs", {7}},
                {"bags", {9, true}},
                {"words_or_ids", {std::numeric_limits<std::int64_t>::max(), true, true}}}));
}

}  // namespace
}  // namespace shardwright
