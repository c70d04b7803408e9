// Which values go to the host, beside all choices that there are.

#include "shardwright/lower/offloaded_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "tests/support/draws.h"

namespace shardwright {
namespace {

/// Values of so many bytes, each made by a node of its own.
Graph of_bytes(const std::vector<std::int64_t>& bytes) {
  Graph out;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out.values.push_back(
        {.name = fmt::format("v{}", i), .type = {DType::u8, {bytes[i]}}, .producer = {static_cast<int>(i)}});
  return out;
}

std::vector<ValueId> all_of(const Graph& graph) {
  std::vector<ValueId> out(graph.values.size());
  for (std::size_t v = 0; v < out.size(); ++v) out[v] = {static_cast<int>(v)};
  return out;
}

/// How long after it was made the last of `values` is copied that waits longest.
double most_behind(const Graph& graph, std::vector<ValueId> values, const CopyPace& pace) {
  std::ranges::sort(values);
  double copied = 0, out = 0;
  for (ValueId v : values) {
    const double made = pace.made_at[static_cast<std::size_t>(v.index)];
    copied =
        std::max(copied, made) + static_cast<double>(graph.value(v).type.bytes()) * pace.seconds_per_byte;
    out = std::max(out, copied - made);
  }
  return out;
}

std::vector<int> numbers(const std::vector<ValueId>& values) {
  std::vector<int> out;
  for (ValueId v : values) out.push_back(v.index);
  return out;
}

TEST(OffloadedValues, are_the_earliest_where_copies_keep_up) {
  const Graph graph = of_bytes({10, 10, 10, 10, 10, 10});
  const CopyPace fast{.made_at = {1, 2, 3, 4, 5, 6}, .seconds_per_byte = 0.09};
  EXPECT_EQ(numbers(earliest_offloaded(graph, all_of(graph), 0.5, fast)), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(numbers(earliest_offloaded(graph, all_of(graph), 0.5, {})), (std::vector<int>{0, 1, 2}));
}

TEST(OffloadedValues, leave_some_between_where_copies_are_slower) {
  const Graph graph = of_bytes({10, 10, 10, 10, 10, 10});
  const CopyPace slow{.made_at = {1, 2, 3, 4, 5, 6}, .seconds_per_byte = 0.2};
  EXPECT_EQ(numbers(earliest_offloaded(graph, all_of(graph), 0.5, slow)), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(earliest_offloaded(graph, all_of(graph), 1, slow).size(), 6U);
}

/// Of equal bytes: no other choice of as many is less behind, unless that is little more than one copy takes.
TEST(OffloadedValues, no_choice_of_as_many_bytes_is_less_behind) {
  std::mt19937_64 random(20261130 + testing::further_seeds());
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int n = 0; n < 200; ++n) {
    const int count = pick(2, 10);
    const Graph graph = of_bytes(std::vector<std::int64_t>(static_cast<std::size_t>(count), 8));
    CopyPace pace{.made_at = {}, .seconds_per_byte = 0.25 * pick(1, 8)};
    double now = 0;
    for (int v = 0; v < count; ++v) pace.made_at.push_back(now += pick(0, 12));
    const double share = 0.1 * pick(1, 10);
    const std::vector<ValueId> values = all_of(graph);
    const std::vector<ValueId> chosen = earliest_offloaded(graph, values, share, pace);
    EXPECT_EQ(chosen.size(), static_cast<std::size_t>(share * count + 1e-9));
    double least = 1e9;
    for (unsigned set = 0; set < 1U << count; ++set) {
      if (static_cast<std::size_t>(std::popcount(set)) != chosen.size()) continue;
      std::vector<ValueId> other;
      for (ValueId v : values)
        if (set >> v.index & 1U) other.push_back(v);
      least = std::min(least, most_behind(graph, other, pace));
    }
    const double one = 8 * pace.seconds_per_byte;
    EXPECT_LE(most_behind(graph, chosen, pace), std::max(1.01 * least, 1.25 * one)) << n;
  }
}

/// Large and small ones in turn, whatever share goes: as many bytes as there may, but for less than the largest; and copies are
/// never far behind where the link carries the share.
TEST(OffloadedValues, of_unlike_bytes_keep_up_at_any_share) {
  std::vector<std::int64_t> bytes;
  for (int layer = 0; layer < 24; ++layer) bytes.insert(bytes.end(), {67, 8, 8, 67, 67, 180, 180});
  const Graph graph = of_bytes(bytes);
  const std::vector<ValueId> values = all_of(graph);
  CopyPace pace{.made_at = {}, .seconds_per_byte = 1};
  double now = 0, all = 0;
  for (std::int64_t b : bytes) {
    pace.made_at.push_back(now += 0.7 * static_cast<double>(b));
    all += static_cast<double>(b);
  }
  for (double share = 0.05; share < 0.7; share += 0.01) {
    const std::vector<ValueId> chosen = earliest_offloaded(graph, values, share, pace);
    double gone = 0;
    for (ValueId v : chosen) gone += static_cast<double>(graph.value(v).type.bytes());
    EXPECT_LE(gone, share * all) << share;
    EXPECT_GT(gone, share * all - 180) << share;
    EXPECT_LE(most_behind(graph, chosen, pace), 4 * 180) << share;
  }
}

TEST(OffloadedValues, largest_are_the_largest_that_fit) {
  const Graph graph = of_bytes({5, 40, 20, 35});
  EXPECT_EQ(numbers(largest_offloaded(graph, all_of(graph), 0.5)), (std::vector<int>{1, 0}));
}

}  // namespace
}  // namespace shardwright
