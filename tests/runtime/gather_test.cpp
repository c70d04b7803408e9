#include "shardwright/runtime/gather.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/device.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

TEST(GatherContract, the_first_rank_gets_the_numbers_of_all_however_many_each_has) {
  const std::vector<std::vector<std::int64_t>> counts{{20000, 0, 3, 8192}, {0, 0, 0, 0}, {2, 2, 2, 2}};
  on_each_rank(4, [&](Communicator& self) {
    const auto backend = testing::device(self.rank());
    for (const auto& count : counts) {
      std::vector<std::vector<std::int64_t>> all;
      for (std::size_t r = 0; r < 4; ++r) {
        all.emplace_back(static_cast<std::size_t>(count[r]));
        std::iota(all[r].begin(), all[r].end(), static_cast<std::int64_t>(r) << 40);
      }
      const auto have = gathered(self, *backend, all[static_cast<std::size_t>(self.rank())]);
      EXPECT_EQ(have, self.rank() == 0 ? all : std::vector<std::vector<std::int64_t>>()) << self.rank();
    }
  });
}

}  // namespace
}  // namespace shardwright
