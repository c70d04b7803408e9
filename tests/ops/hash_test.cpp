// The rows of hashed ids, by numbers of a Python loop of splitmix64 that gives the published e220a8397b1dcdaf for 0: checkpoints and
// packages rely on them.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

std::vector<double> rows_of(const std::vector<std::int64_t>& ids, std::int64_t rows) {
  Tensor x({DType::i64, {static_cast<std::int64_t>(ids.size())}});
  std::ranges::copy(ids, x.as<std::int64_t>().begin());
  return to_doubles(evaluate(find_op("hash"), std::span(&x, 1), {{"rows", rows}})[0]);
}

TEST(Hash, never_changes) {
  const std::vector<std::int64_t> ids{0, 1, 2, 17, 2147483647, (std::int64_t{1} << 62) + 5};
  EXPECT_EQ(rows_of(ids, 7), (std::vector<double>{4, 4, 2, 6, 0, 6}));
  EXPECT_EQ(rows_of(ids, 1000003), (std::vector<double>{2497, 872766, 660141, 981191, 791547, 431162}));
  EXPECT_EQ(rows_of(ids, 2147483647),
            (std::vector<double>{531599122, 1435196493, 631497030, 402010018, 1963416729, 1714975541}));
}

TEST(Hash, ids_below_0_stay_none) {
  EXPECT_EQ(rows_of({-1, -5, std::numeric_limits<std::int64_t>::lowest()}, 9),
            (std::vector<double>{-1, -1, -1}));
}

TEST(Hash, spreads_ids_evenly) {
  constexpr std::int64_t rows = 64, count = 64000;
  std::vector<std::int64_t> ids(count), found(rows);
  for (std::int64_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = 1000 * i;  // as rows apart
  for (double row : rows_of(ids, rows)) ++found[static_cast<std::size_t>(row)];
  double chi = 0;  // of 63 degrees of freedom: above 103.4 once in 1000 times
  for (std::int64_t n : found) chi += static_cast<double>((n - 1000) * (n - 1000)) / 1000;
  EXPECT_LT(chi, 103.4);
}

}  // namespace
}  // namespace shardwright
