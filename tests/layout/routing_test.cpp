// What share of rows goes to some of the experts, and which.

#include "shardwright/layout/routing.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "shardwright/layout/layout_steps.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {
namespace {

/// Of all ways to choose, counted one by one.
TEST(Routing, counts_rows_that_have_one_of_some_experts) {
  for (const std::uint32_t experts : {4U, 8U, 12U})
    for (std::uint32_t parts = 1; parts <= experts; ++parts) {
      if (experts % parts) continue;
      for (std::uint32_t choices = 1; choices <= experts; ++choices) {
        double all = 0, hit = 0;
        const std::uint32_t own = (1U << (experts / parts)) - 1;
        for (std::uint32_t chosen = 0; chosen < 1U << experts; ++chosen) {
          if (std::popcount(chosen) != static_cast<int>(choices)) continue;
          all += 1, hit += (chosen & own) != 0;
        }
        EXPECT_NEAR(share_of_rows({experts, {}, choices}, parts), hit / all, 1e-12)
            << experts << " " << parts << " " << choices;
      }
    }
}

/// One host of two, of 4 devices: each has use for rows of its own expert, a host for those of four.
TEST(Routing, prices_what_each_link_moves) {
  const Mesh mesh{{{"a", 8}}};
  const LinkCost outer{.seconds_per_byte = 1e-9, .level = 1}, inner{.seconds_per_byte = 1e-10, .level = 0};
  const MeshCost cost{.axes = {outer}, .levels = {{{2, outer}, {4, inner}}}};
  const Step step{.kind = StepKind::all_gather,
                  .axes = {0},
                  .dim_from = 0,
                  .from = {{{0}, {}}, {}, {}},
                  .to = {{{}, {}}, {}, {}},
                  .bytes = 7000,
                  .routing = Routing{8, {0}, 1}};
  const std::vector<LinkUse> uses = step_uses(step, mesh, cost);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_NEAR(uses[0].seconds, 1e-10 * 8000 * 3 / 4 / 8, 1e-18);  // an eighth of the rows
  EXPECT_NEAR(uses[1].seconds, 1e-9 * 8000 / 4 / 2 / 2, 1e-18);   // half of them
  MeshCost uneven = cost;
  uneven.routing_imbalance = 3;
  EXPECT_NEAR(step_uses(step, mesh, uneven)[0].seconds, 3 * uses[0].seconds, 1e-18);
  EXPECT_NEAR(step_uses(step, mesh, uneven)[1].seconds, 2 * uses[1].seconds,
              1e-18);  // all: more there is not
}

}  // namespace
}  // namespace shardwright
