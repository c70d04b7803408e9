#include "shardwright/runtime/agreement.h"

#include <gtest/gtest.h>

#include <string>

namespace shardwright {
namespace {

using Agreements = std::vector<Agreement>;

Agreement flag(const std::string& name, const std::string& value) {
  return {name, value, name + " " + value};
}

std::string line(const Agreements& rank_0, const Agreements& own) {
  return difference(unpacked(packed(rank_0)), 3, own).value_or("none");
}

TEST(Agreement, ranks_that_were_told_the_same_differ_in_nothing) {
  const Agreements all{flag("--lr", "0.1"), {"plan", "1234", "--plan a.json"}, {"--json", "", "--json"}};
  EXPECT_EQ(line(all, all), "none");
  EXPECT_EQ(line({}, {}), "none");
}

TEST(Agreement, a_copy_of_a_file_is_the_same) {
  EXPECT_EQ(line({{"plan", "1234", "--plan a.json"}}, {{"plan", "1234", "--plan copy.json"}}), "none");
}

TEST(Agreement, the_difference_is_named_with_both_values) {
  EXPECT_EQ(line({flag("--lr", "0.1")}, {flag("--lr", "0.2")}), "rank 3 was told --lr 0.2, rank 0 --lr 0.1");
  EXPECT_EQ(line({{"plan", "12", "--plan a.json"}}, {{"plan", "34", "--plan b.json"}}),
            "rank 3 was told --plan b.json, rank 0 --plan a.json");
}

TEST(Agreement, a_file_that_differs_between_hosts_is_named) {
  EXPECT_EQ(line({{"plan", "12", "--plan a.json"}}, {{"plan", "34", "--plan a.json"}}),
            "rank 3 has another plan than rank 0, though both were told --plan a.json");
}

TEST(Agreement, of_programs_the_first_line_that_differs_is_named) {
  EXPECT_EQ(line({{"program", "a\nb\nc\n", ""}}, {{"program", "a\nx\ny\n", ""}}),
            "rank 3 has another program than rank 0: `x`, there `b`");
  EXPECT_EQ(line({{"program", "a\nb\n", ""}}, {{"program", "a\n", ""}}),
            "rank 3 has another program than rank 0: ``, there `b`");
}

/// The plan follows from the flag.
TEST(Agreement, what_only_one_rank_was_told_comes_first) {
  const Agreement plan{"plan", "12", "to search"}, other{"plan", "34", "to search"};
  EXPECT_EQ(line({plan}, {other, flag("--lr", "0.2")}), "rank 3 was told --lr 0.2, rank 0 no --lr");
  EXPECT_EQ(line({plan, flag("--lr", "0.2")}, {other}), "rank 3 was told no --lr, rank 0 --lr 0.2");
}

}  // namespace
}  // namespace shardwright
