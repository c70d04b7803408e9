#include "shardwright/layout/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/layouts.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::all_layouts;
using testing::Draw;
using testing::layout_of;
using testing::mesh_of;

TEST(Layout, cuts_a_dim_into_nested_parts) {
  for (std::int64_t n = 0; n < 40; ++n)
    for (std::int64_t parts = 1; parts < 10; ++parts) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range r = cut(n, parts, i);
        ASSERT_EQ(r.begin, end);  // no gap, no overlap
        ASSERT_GE(r.end, r.begin);
        ASSERT_LE(r.end - r.begin, (n + parts - 1) / parts);
        ASSERT_GE(r.end - r.begin, n / parts);
        end = r.end;
        // The finer cut of the same dim cuts within this part only.
        for (std::int64_t finer : {2, 3, 4}) {
          ASSERT_EQ(cut(n, parts * finer, i * finer).begin, r.begin);
          ASSERT_EQ(cut(n, parts * finer, i * finer + finer - 1).end, r.end);
        }
      }
      ASSERT_EQ(end, n);
    }
}

// The picture of seed 001: dp, sp, mp = 2, 2, 2; rows over mp, columns over (sp, dp).
TEST(Layout, of_seed_001_lies_as_its_picture_shows) {
  const Mesh mesh = mesh_of("mesh [dp=2, sp=2, mp=2]");
  const Layout layout = layout_of("[mp, sp.dp]", mesh);
  const int row0[] = {0, 4, 2, 6}, row1[] = {1, 5, 3, 7};
  for (std::int64_t column = 0; column < 4; ++column) {
    EXPECT_EQ(box(layout, mesh, {2, 4}, row0[column]), (Box{{0, column}, {1, 1}}));
    EXPECT_EQ(box(layout, mesh, {2, 4}, row1[column]), (Box{{1, column}, {1, 1}}));
  }
  for (int r = 0; r < 8; ++r) {
    const int dp = r / 4, sp = r / 2 % 2, mp = r % 2;
    EXPECT_EQ(box(layout, mesh, {2, 4}, r).offset, (Shape{mp, 2 * sp + dp}));
  }
}

TEST(Layout, gives_each_element_to_one_rank_per_replica) {
  for (const char* text : {"mesh [a=2, b=2]", "mesh [a=2, b=3]", "mesh [a=4, b=2]"}) {
    const Mesh mesh = mesh_of(text);
    for (const Shape& shape : {Shape{4, 4}, Shape{5, 7}, Shape{1, 3}})
      for (const Layout& l : all_layouts(mesh, shape, {.sum = false})) {
        std::vector<int> holders(static_cast<std::size_t>(element_count(shape)), 0);
        for (int r = 0; r < mesh.size(); ++r) {
          const Box b = box(l, mesh, shape, r);
          for (std::int64_t i = b.offset[0]; i < b.offset[0] + b.extent[0]; ++i)
            for (std::int64_t j = b.offset[1]; j < b.offset[1] + b.extent[1]; ++j)
              ++holders[static_cast<std::size_t>(i * shape[1] + j)];
        }
        const int replicas = mesh.count(mesh.all_axes().without(l.used()));
        for (int h : holders) ASSERT_EQ(h, replicas) << to_text(l, mesh) << " of " << to_text(shape);
      }
  }
}

TEST(Layout, knows_its_local_shapes) {
  const Mesh mesh = mesh_of("mesh [a=2, b=3]");
  EXPECT_EQ(local_shape(layout_of("[a, b]", mesh), mesh, {4, 9}), (Shape{2, 3}));
  EXPECT_EQ(local_shape(layout_of("[a.b, -] ", mesh), mesh, {12, 9}), (Shape{2, 9}));
  EXPECT_EQ(local_shape(layout_of("[-] sum(a)", mesh), mesh, {4}), (Shape{4}));
  EXPECT_FALSE(is_even(layout_of("[a, b]", mesh), mesh, {4, 8}));
  EXPECT_EQ(largest_local_shape(layout_of("[a, b]", mesh), mesh, {5, 8}), (Shape{3, 3}));
  EXPECT_THROW(local_shape(layout_of("[a]", mesh), mesh, {5}), InternalError);
  for (const Shape& shape : {Shape{6, 6}, Shape{5, 7}})
    for (const Layout& l : all_layouts(mesh, shape)) {
      Shape largest{0, 0};
      std::set<Shape> seen;
      for (int r = 0; r < mesh.size(); ++r) {
        const Shape extent = box(l, mesh, shape, r).extent;
        seen.insert(extent);
        for (std::size_t d = 0; d < 2; ++d) largest[d] = std::max(largest[d], extent[d]);
      }
      EXPECT_EQ(largest_local_shape(l, mesh, shape), largest);
      EXPECT_EQ(is_even(l, mesh, shape), seen.size() == 1) << to_text(l, mesh) << " of " << to_text(shape);
    }
}

TEST(Layout, intersects_boxes) {
  const Box a{{0, 2}, {3, 4}};
  EXPECT_EQ(intersect(a, {{1, 0}, {5, 3}}), (Box{{1, 2}, {2, 1}}));
  EXPECT_EQ(intersect(a, a), a);
  EXPECT_EQ(element_count(intersect(a, {{3, 2}, {1, 1}}).extent), 0);
}

TEST(Layout, says_what_it_uses) {
  const Mesh mesh = mesh_of("mesh [a=2, b=3, c=2]");
  const Layout l = layout_of("[b, -] sum(a)", mesh);
  EXPECT_EQ(l.used().sorted(), (Axes{0, 1}));
  EXPECT_TRUE(l.is_partial());
  EXPECT_FALSE(l.is_replicated());
  EXPECT_TRUE(replicated(2).is_replicated());
  EXPECT_FALSE(layout_of("[-] max(c)", mesh).is_replicated());
}

TEST(Layout, prints_what_it_reads) {
  const Mesh mesh = mesh_of("mesh [dp=2, sp=2, mp=2]");
  for (const char* text : {"[]", "[-]", "[dp.mp, -]", "[mp, sp.dp]", "[-, -] sum(dp, mp)", "[sp] max(dp)",
                           "[dp] sum(sp) max(mp)", "[] sum(dp, sp, mp)", "[-, dp.mp/128] sum(sp)"})
    EXPECT_EQ(to_text(layout_of(text, mesh), mesh), text);
  const Mesh shared = mesh_of("mesh [dp=2 by 3:1, sp=2]");
  for (const char* text : {"[dp/shares, sp]", "[dp.sp/3/shares, -]"})
    EXPECT_EQ(to_text(layout_of(text, shared), shared), text);
  for (unsigned seed = 0; seed < 500; ++seed) {
    Draw draw(seed);
    const Mesh any = draw.mesh(5);
    const Layout l = draw.layout(any, static_cast<std::size_t>(draw.below(4)), {.max = true});
    EXPECT_EQ(layout_of(to_text(l, any), any), l) << "seed " << seed;
  }
}

/// Heads of 4 features, 5 of them on 3 devices: 1, 2 and 2.
TEST(Layout, keeps_runs_together) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=3]");
  const Layout layout = layout_of("[dp, tp/4]", mesh);
  std::vector<std::int64_t> widths;
  for (int rank = 0; rank < 3; ++rank) widths.push_back(box(layout, mesh, {7, 20}, rank).extent[1]);
  EXPECT_EQ(widths, (std::vector<std::int64_t>{4, 8, 8}));
  EXPECT_EQ(largest_local_shape(layout, mesh, {7, 20}), (Shape{4, 8}));
  EXPECT_FALSE(is_even(layout, mesh, {8, 20}));
  EXPECT_EQ(settled(layout.dims[1], mesh, 24), layout_of("[tp]", mesh).dims[0]);  // 2 heads each
  EXPECT_EQ(settled(layout.dims[1], mesh, 20), layout.dims[1]);
}

/// 8 samples on devices of which the first is five times as fast as the last, and on those of another axis, too.
TEST(Layout, cuts_by_shares) {
  const Mesh mesh = mesh_of("mesh [dp=3 by 5:2:1, tp=2, cp=2 by 1:3]");
  const auto sizes = [&](const char* text, std::int64_t n, std::initializer_list<int> ranks) {
    const Layout layout = layout_of(text, mesh);
    std::vector<std::int64_t> out;
    for (int rank : ranks) out.push_back(box(layout, mesh, {n}, rank).extent[0]);
    return out;
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes("[dp/shares]", 8, {0, 4, 8}), (Sizes{5, 2, 1}));
  EXPECT_EQ(sizes("[dp]", 9, {0, 4, 8}), (Sizes{3, 3, 3}));  // what is not cut by them is cut equally
  EXPECT_EQ(sizes("[dp/4/shares]", 32, {0, 4, 8}), (Sizes{20, 8, 4}));
  EXPECT_EQ(sizes("[dp.tp/shares]", 16, {0, 2, 4, 6, 8, 10}), (Sizes{5, 5, 2, 2, 1, 1}));
  EXPECT_EQ(sizes("[dp.cp/shares]", 32, {0, 1, 4, 5, 8, 9}), (Sizes{5, 15, 2, 6, 1, 3}));
  EXPECT_EQ(sizes("[cp.dp/shares]", 32, {0, 4, 8, 1, 5, 9}), (Sizes{5, 2, 1, 15, 6, 3}));
  const Layout layout = layout_of("[dp/shares]", mesh);
  EXPECT_EQ(largest_local_shape(layout, mesh, {8}), (Shape{5}));
  EXPECT_EQ(smallest_part(layout.dims[0], mesh, 8), 1);
  EXPECT_EQ(largest_part(layout.dims[0], mesh, 8, 4, 8), 2);  // of ranks 4 to 11
  EXPECT_FALSE(is_even(layout, mesh, {9}));
  EXPECT_EQ(settled(layout.dims[0], mesh_of("mesh [dp=3]"), 8), (Axes{0}));
  EXPECT_EQ(error_of([&] { layout_of("[tp/shares]", mesh); }),
            "'tp/shares': no axis of mesh [dp=3 by 5:2:1, tp=2, cp=2 by 1:3] has shares");
}

TEST(Layout, names_what_is_wrong) {
  const Mesh mesh = mesh_of("mesh [dp=2, tp=2]");
  const auto checked = [&](const char* text, const Shape& shape) {
    return error_of([&] { check(layout_of(text, mesh), mesh, shape); });
  };
  EXPECT_EQ(checked("[dp]", {4, 4}), "layout [dp] has 1 dims but the tensor [4, 4] has 2");
  EXPECT_EQ(checked("[dp, dp]", {4, 4}), "axis 'dp' is used twice in layout [dp, dp]");
  EXPECT_EQ(checked("[dp, -] sum(dp)", {4, 4}), "axis 'dp' is used twice in layout [dp, -] sum(dp)");
  EXPECT_EQ(checked("[dp, tp]", {4, 4}), "no error");
  EXPECT_EQ(checked("[dp/2, tp]", {4, 4}), "no error");
  EXPECT_EQ(checked("[dp/3, tp]", {4, 4}), "layout [dp/3, tp]: runs of 3 do not make up dim 0 of [4, 4]");
  EXPECT_EQ(checked("[dp/0]", {4}), "'dp/0': elements that stay together are 1 or more");
  EXPECT_EQ(checked("[dp/99999999999999999999]", {4}),
            "'dp/99999999999999999999': elements that stay together are 1 or more");
  EXPECT_EQ(checked("[pp]", {4}), "axis 'pp' is not in mesh [dp=2, tp=2]");
  EXPECT_EQ(checked("[dp", {4}), "text: expected ']' at the end of '[dp'");
}

TEST(Layout, translates_to_a_finer_mesh) {
  const std::vector<Mesh> meshes{mesh_of("mesh [a=8]"), mesh_of("mesh [p=2, q=4]")};
  const auto r = refine(meshes);
  ASSERT_TRUE(r);
  EXPECT_EQ(to_text(translate(layout_of("[a, -]", meshes[0]), r->axes_of[0], 0), r->mesh), "[p.q, -]");
  EXPECT_EQ(to_text(translate(layout_of("[-] sum(a)", meshes[0]), r->axes_of[0], 0), r->mesh),
            "[-] sum(p, q)");
  EXPECT_EQ(translate(layout_of("[a]", meshes[0]), r->axes_of[0], 3).mesh, 3);
  EXPECT_EQ(translate(layout_of("[-]", meshes[0]), r->axes_of[0], 3).mesh, 0);
}

}  // namespace
}  // namespace shardwright
