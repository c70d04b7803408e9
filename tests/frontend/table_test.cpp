#include "shardwright/frontend/table.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

std::vector<std::string> names_of(const std::vector<FoldedName>& rows) {
  std::vector<std::string> out;
  for (const FoldedName& row : rows) out.push_back(row.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(Folded, names_that_differ_in_one_number_become_a_range) {
  const auto rows = folded({"layers.0.norm", "layers.1.norm", "head", "layers.2.norm", "layers.4.norm"});
  EXPECT_EQ(names_of(rows), (Names{"layers.0-2,4.norm", "head"}));
  EXPECT_EQ(rows[0].members, (std::vector<std::size_t>{0, 1, 3, 4}));
}

TEST(Folded, two_numbers_are_ranges_where_all_combinations_are_there) {
  EXPECT_EQ(names_of(folded({"layer0.norm1", "layer0.norm2", "layer1.norm1", "layer1.norm2"})),
            (Names{"layer0-1.norm1-2"}));
  EXPECT_EQ(names_of(folded({"layer0.norm1", "layer0.norm2", "layer1.norm1"})),
            (Names{"layer0.norm1-2", "layer1.norm1"}));
}

TEST(Folded, one_name_stays_as_it_is) {
  EXPECT_EQ(names_of(folded({"layer1.0.conv2", "conv2d", "loss"})),
            (Names{"layer1.0.conv2", "conv2d", "loss"}));
}

TEST(Table, numbers_stand_at_the_right_and_the_last_column_is_not_padded) {
  EXPECT_EQ(aligned({{"name", "time", "why"}, {"a", "1.5%", "because"}, {"long name", "22.0%", ""}},
                    {.begin = 1, .end = 2}),
            "  name        time  why\n"
            "  a           1.5%  because\n"
            "  long name  22.0%\n");
}

TEST(Table, parts_are_written_as_the_seeds_do_and_equal_ones_counted) {
  EXPECT_EQ(integers_text({{8, 1}, {1, 4}}), "((8,1),(1,4))");
  EXPECT_EQ(integers_text({{8}}), "((8,),)");
  EXPECT_EQ(integers_text({{2, 1}, {2, 1}, {2}}), "((2,1) x2,(2,))");
  EXPECT_EQ(integers_text({{}}), "((),)");
}

TEST(Table, seconds_have_a_unit_that_fits) {
  EXPECT_EQ(seconds_text(0), "0");
  EXPECT_EQ(seconds_text(3.2e-9), "3.2 ns");
  EXPECT_EQ(seconds_text(12.34e-6), "12.3 us");
  EXPECT_EQ(seconds_text(0.5), "500 ms");
  EXPECT_EQ(seconds_text(96.262), "96.26 s");
}

}  // namespace
}  // namespace shardwright
