#include "shardwright/layout/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/layouts.h"

namespace shardwright {
namespace {

using testing::Draw;
using testing::layout_of;
using testing::mesh_of;

/// Flat indices that a piece reads or writes.
std::vector<std::int64_t> elements(const Piece& p, bool is_source) {
  std::vector<std::int64_t> out;
  for_each_run(p, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) out.push_back((is_source ? from : to) + i);
  });
  return out;
}

TEST(Transfer, fills_each_result_exactly_once) {
  for (const char* text : {"mesh [a=2, b=2]", "mesh [a=2, b=3]", "mesh [a=2, b=2, c=2]"})
    for (const Shape& shape : {Shape{8, 8}, Shape{5, 7}, Shape{3, 4, 5}, Shape{1, 2}}) {
      const Mesh mesh = mesh_of(text);
      const std::vector<Mesh> meshes{mesh};
      Redistributor redistributor(mesh);
      Draw draw(11);
      for (int i = 0; i < 100; ++i) {
        const Layout from = draw.layout(mesh, shape.size()), to = draw.layout(mesh, shape.size());
        for (const Step& step : redistributor.find(from, to, {DType::f32, shape}).steps) {
          SCOPED_TRACE(to_text(mesh) + " " + to_text(shape) + " " + to_text(step, meshes));
          for (int r = 0; r < mesh.size(); ++r) {
            const Transfer t = transfer_of(step, meshes, shape, r);
            ASSERT_TRUE(std::is_sorted(t.group.begin(), t.group.end()));
            ASSERT_TRUE(std::binary_search(t.group.begin(), t.group.end(), r));
            for (int q : t.group) ASSERT_EQ(transfer_of(step, meshes, shape, q).group, t.group);
            ASSERT_EQ(t.from_shape, box(step.from, mesh, shape, r).extent);
            ASSERT_EQ(t.to_shape, box(step.to, mesh, shape, r).extent);
            std::vector<int> written(static_cast<std::size_t>(element_count(t.to_shape)), 0);
            std::set<int> sources;
            for (const Piece& p : t.pieces) {
              ASSERT_TRUE(std::binary_search(t.group.begin(), t.group.end(), p.source));
              sources.insert(p.source);
              const std::int64_t held = element_count(box(step.from, mesh, shape, p.source).extent);
              for (std::int64_t e : elements(p, true)) ASSERT_TRUE(e >= 0 && e < held);
              for (std::int64_t e : elements(p, false)) {
                ASSERT_TRUE(e >= 0 && e < static_cast<std::int64_t>(written.size()));
                ++written[static_cast<std::size_t>(e)];
              }
            }
            ASSERT_EQ(sources.size(), t.pieces.size()) << "one piece per source";
            const int want = t.clears ? 0 : t.reduces ? static_cast<int>(t.group.size()) : 1;
            for (int w : written) ASSERT_EQ(w, want);
          }
        }
      }
    }
}

TEST(Transfer, takes_from_itself_what_it_has) {
  const std::vector<Mesh> meshes{mesh_of("mesh [a=2, b=2]")};
  Redistributor redistributor(meshes[0]);
  const auto& r = redistributor.find(layout_of("[a, -]", meshes[0]), layout_of("[-, -]", meshes[0]),
                                     {DType::f32, {4, 4}});
  ASSERT_EQ(r.steps.size(), 1);
  for (int rank = 0; rank < 4; ++rank) {
    const Transfer t = transfer_of(r.steps[0], meshes, {4, 4}, rank);
    EXPECT_EQ(t.pieces.front().source, rank);
    EXPECT_EQ(t.pieces.size(), 2);
    EXPECT_EQ(t.group, (std::vector<int>{rank % 2, rank % 2 + 2}));
  }
}

/// Joins the pieces of every taker from what the givers hold, and compares with what it should hold.
void expect_moves(const Placement& from, const Placement& to, const Shape& shape, int ranks) {
  const TransfersBetween transfers(from, to, shape);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!from.has(rank) && !to.has(rank)) continue;
    const Transfer t = transfers.of(rank);
    for (int q : t.group) ASSERT_EQ(transfers.of(q).group, t.group);
    ASSERT_TRUE(std::binary_search(t.group.begin(), t.group.end(), rank));
    if (!to.has(rank)) {
      EXPECT_TRUE(t.pieces.empty());
      continue;
    }
    const Box own = to.box_on(rank, shape);
    std::vector<int> written(static_cast<std::size_t>(element_count(own.extent)), 0);
    for (const Piece& p : t.pieces) {
      ASSERT_TRUE(std::binary_search(t.group.begin(), t.group.end(), p.source));
      const Box there = from.box_on(p.source, shape);
      const auto read = elements(p, true), write = elements(p, false);
      for (std::size_t e = 0; e < read.size(); ++e) {
        ++written[static_cast<std::size_t>(write[e])];
        // The same element of the whole tensor on both sides.
        std::int64_t at_source = read[e], at_own = write[e];
        for (std::size_t d = shape.size(); d-- > 0;) {
          EXPECT_EQ(there.offset[d] + at_source % there.extent[d], own.offset[d] + at_own % own.extent[d]);
          at_source /= there.extent[d];
          at_own /= own.extent[d];
        }
      }
    }
    for (int n : written) ASSERT_EQ(n, 1);
  }
}

TEST(Transfer, between_placements_fills_each_result_exactly_once) {
  Draw draw(5);
  for (int i = 0; i < 300; ++i) {
    const Mesh a = draw.mesh(2), b = draw.mesh(3);
    const Shape shape = draw.from(std::vector<Shape>{{8, 8}, {5, 7}, {3, 4, 5}, {1, 2}, {}});
    const Placement from{&a, draw.layout(a, shape.size(), {.sum = false}), draw.below(3)};
    const Placement to{&b, draw.layout(b, shape.size(), {.sum = false}),
                       from.first_rank + draw.below(a.size() + 1)};
    SCOPED_TRACE(fmt::format("draw {}", i));
    expect_moves(from, to, shape, 64);
    for (int apart : {0, a.size(), a.size() + 2})
      expect_moves(from, {&a, from.layout, from.first_rank + apart}, shape, 64);
  }
}

TEST(Transfer, between_equal_meshes_joins_each_rank_with_its_own) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=2]");
  const Placement from{&mesh, layout_of("[dp, -]", mesh), 0}, to{&mesh, layout_of("[dp, -]", mesh), 4};
  const TransfersBetween transfers(from, to, {8, 8});
  for (int r = 4; r < 8; ++r) EXPECT_EQ(transfers.of(r).group, (std::vector<int>{r - 4, r}));
}

TEST(Transfer, runs_are_as_long_as_both_sides_allow) {
  const auto runs = [](const Piece& p) {
    int count = 0;
    for_each_run(p, [&](std::int64_t, std::int64_t, std::int64_t) { ++count; });
    return count;
  };
  EXPECT_EQ(runs({.extent = {4, 6}, .from_strides = {6, 1}, .to_strides = {6, 1}}), 1);
  EXPECT_EQ(runs({.extent = {4, 6}, .from_strides = {12, 1}, .to_strides = {6, 1}}), 4);
  EXPECT_EQ(runs({.extent = {2, 4, 6}, .from_strides = {48, 6, 1}, .to_strides = {24, 6, 1}}), 2);
  EXPECT_EQ(runs({.extent = {}, .from_strides = {}, .to_strides = {}}), 1);
  EXPECT_EQ(runs({.extent = {4, 0}, .from_strides = {1, 1}, .to_strides = {1, 1}}), 0);
}

}  // namespace
}  // namespace shardwright
