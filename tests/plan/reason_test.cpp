#include "shardwright/plan/reason.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

using Neighbour = Reason::Neighbour;

TEST(Reason, comes_back_from_its_text) {
  Reason reason;
  reason.neighbours = {{Neighbour::from, "relu1", "all_gather(dim 1, tp); slice(dim 0, dp)"},
                       {Neighbour::data, "input", ""},
                       {Neighbour::to, "dense3.add", "all_reduce.sum(tp)"}};
  reason.notes = {"changed to move less in all", "tp: n (m +0.55 ms, k +0.64 ms)"};
  const std::string text =
      "from relu1: all_gather(dim 1, tp); slice(dim 0, dp); from data input: no communication; "
      "to dense3.add: all_reduce.sum(tp); changed to move less in all; tp: n (m +0.55 ms, k +0.64 ms)";
  EXPECT_EQ(to_text(reason), text);
  EXPECT_EQ(parse_reason(text), reason);
  EXPECT_EQ(to_text(parse_reason("from here to there; because")), "from here to there; because");
  EXPECT_EQ(parse_reason("from x: no communication, changed to move less in all"),
            parse_reason("from x: no communication; changed to move less in all"));
  EXPECT_TRUE(parse_reason(" ; ").is_empty());
}

}  // namespace
}  // namespace shardwright
