#include "shardwright/layout/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardwright/layout/layout.h"
#include "tests/support/layouts.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using testing::all_layouts;
using testing::Draw;
using testing::layout_of;
using testing::mesh_of;
using testing::mesh_of_sizes;

using Ranks = std::vector<int>;

TEST(Mesh, the_last_axis_joins_neighbouring_ranks) {
  const Mesh mesh = mesh_of("mesh [dp=2, sp=3, mp=4]");
  EXPECT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.stride_of(0), 12);
  EXPECT_EQ(mesh.stride_of(1), 4);
  EXPECT_EQ(mesh.stride_of(2), 1);
  int rank = 0;
  for (int dp = 0; dp < 2; ++dp)
    for (int sp = 0; sp < 3; ++sp)
      for (int mp = 0; mp < 4; ++mp, ++rank) {
        EXPECT_EQ(mesh.coordinate(rank, 0), dp);
        EXPECT_EQ(mesh.coordinate(rank, 1), sp);
        EXPECT_EQ(mesh.coordinate(rank, 2), mp);
        EXPECT_EQ(mesh.index_along(rank, {2, 0}), mp * 2 + dp);
      }
}

TEST(Mesh, a_group_is_ordered_along_its_axes) {
  const Mesh mesh = mesh_of("mesh [dp=2, sp=2, mp=2]");
  EXPECT_EQ(mesh.group_of(5, {2}), (Ranks{4, 5}));
  EXPECT_EQ(mesh.group_of(5, {0}), (Ranks{1, 5}));
  EXPECT_EQ(mesh.group_of(5, {0, 2}), (Ranks{0, 1, 4, 5}));
  EXPECT_EQ(mesh.group_of(5, {2, 0}), (Ranks{0, 4, 1, 5}));
  EXPECT_EQ(mesh.group_of(5, {}), (Ranks{5}));
  EXPECT_EQ(mesh.group_of(5, mesh.all_axes()), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Mesh, groups_part_the_ranks_and_count_along_their_axes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Mesh mesh = draw.mesh(4);
    const Axes axes = draw.layout(mesh, 1, {.sum = false}).dims[0];
    std::vector<int> members(static_cast<std::size_t>(mesh.size()), 0);
    for (int r = 0; r < mesh.size(); ++r) {
      const Ranks group = mesh.group_of(r, axes);
      ASSERT_EQ(static_cast<int>(group.size()), mesh.count(axes));
      ASSERT_EQ(group[static_cast<std::size_t>(mesh.index_along(r, axes))], r);
      for (int i = 0; i < static_cast<int>(group.size()); ++i) {
        const int q = group[static_cast<std::size_t>(i)];
        ASSERT_EQ(mesh.index_along(q, axes), i);
        ASSERT_EQ(mesh.group_of(q, axes), group);
        for (int a : mesh.all_axes().without(axes)) ASSERT_EQ(mesh.coordinate(q, a), mesh.coordinate(r, a));
      }
      if (group.front() == r)
        for (int q : group) ++members[static_cast<std::size_t>(q)];
    }
    ASSERT_EQ(std::count(members.begin(), members.end(), 1), mesh.size());
  }
}

TEST(Mesh, prints_what_it_reads) {
  for (const char* text :
       {"mesh []", "mesh [dp=4, tp=2]", "mesh [a=1, b_2=3, c/d=2]", "mesh [dp=3 by 2:1:1, tp=2]"})
    EXPECT_EQ(to_text(mesh_of(text)), text);
  for (unsigned seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    const Mesh mesh = draw.mesh(6);
    EXPECT_EQ(mesh_of(to_text(mesh)), mesh) << "seed " << seed;
  }
}

TEST(Mesh, names_what_is_wrong_in_its_text) {
  const auto error = [](const char* text) { return error_of([&] { mesh_of(text); }); };
  EXPECT_EQ(error("mesh [dp=0]"), "axis 'dp' has size 0; sizes start at 1");
  EXPECT_EQ(error("mesh [dp=-2]"), "axis 'dp' has size -2; sizes start at 1");
  EXPECT_EQ(error("mesh [dp=2, dp=2]"), "axis 'dp' is twice in mesh [dp=2, dp=2]");
  EXPECT_EQ(error("mesh [None=2]"), "'None' cannot name an axis");
  EXPECT_EQ(error("mesh [a.b=2]"), "'a.b' cannot name an axis");
  EXPECT_EQ(error("mesh [a=1024, b=2048]"), "mesh [a=1024, b=2048] has more than 1048576 ranks");
  EXPECT_EQ(error("mesh [a=4294967298]"), "axis 'a' has size 4294967298; at most 1048576 ranks are possible");
  EXPECT_EQ(error("mesh [a=2 by 3:1:1]"),
            "axis 'a' of size 2 has shares 3:1:1; each along it has one, from 1 to 4096");
  EXPECT_EQ(error("mesh [a=2 by 3:0]"),
            "axis 'a' of size 2 has shares 3:0; each along it has one, from 1 to 4096");
  EXPECT_EQ(error("mesh [a=2 by 3:4097]"),
            "axis 'a' of size 2 has shares 3:4097; each along it has one, from 1 to 4096");
  EXPECT_EQ(
      error("mesh [a=2 by 4096:4096, b=2 by 4096:4096, c=2 by 4096:4096]"),
      "mesh [a=2 by 4096:4096, b=2 by 4096:4096, c=2 by 4096:4096]: its shares, multiplied, are more than "
      "2147483648; say smaller ones");
  EXPECT_EQ(error("mesh [a/shares=2]"), "'a/shares' cannot name an axis");
  EXPECT_EQ(error("mesh [a]"), "text: expected '=' at ']' in 'mesh [a]'");
  EXPECT_EQ(error_of([] { (void)mesh_of("mesh [dp=2]").axis("tp"); }), "axis 'tp' is not in mesh [dp=2]");
  EXPECT_EQ(error_of([] { (void)layout_of("[dp.dp]", mesh_of("mesh [dp=2]")); }),
            "axis 'dp' is used twice in 'dp.dp'");
}

TEST(Mesh, axes_are_short_lists) {
  const Axes a{2, 0, 3};
  EXPECT_EQ(a.prefix(2), (Axes{2, 0}));
  EXPECT_EQ(a.suffix(2), (Axes{0, 3}));
  EXPECT_EQ(a.with({1}), (Axes{2, 0, 3, 1}));
  EXPECT_EQ(a.without({0}), (Axes{2, 3}));
  EXPECT_EQ(a.without({2, 0, 3}), Axes{});
  EXPECT_EQ(a.sorted(), (Axes{0, 2, 3}));
  EXPECT_TRUE(a.contains(3));
  EXPECT_FALSE(a.contains(1));
}

// ---- refinement ----

std::optional<Refinement> refine_sizes(const std::vector<std::vector<int>>& sizes) {
  std::vector<Mesh> meshes;
  for (const auto& s : sizes) {
    meshes.push_back(mesh_of_sizes(s));
    for (Axis& axis : meshes.back().axes) axis.name = "";  // as device matrices of single operators
  }
  return refine(meshes);
}

TEST(Refine, finds_the_coarsest_common_mesh) {
  struct Case {
    std::vector<std::vector<int>> meshes;
    std::string refined;  // empty: there is none
  };
  const std::vector<Case> cases = {
      {{{2, 2, 2}, {8}}, "mesh [x0=2, x1=2, x2=2]"},
      {{{8, 4}, {4, 2, 4}}, "mesh [x0=4, x1=2, x2=4]"},
      {{{8, 4}, {4, 2, 2, 2}}, "mesh [x0=4, x1=2, x2=2, x3=2]"},
      {{{2, 4, 2}, {4, 2, 2}}, "mesh [x0=2, x1=2, x2=2, x3=2]"},
      {{{2, 4}, {4, 2}}, "mesh [x0=2, x1=2, x2=2]"},
      {{{16, 1, 1}, {1, 16, 1}}, "mesh [x0=16]"},
      {{{2, 6}, {6, 2}}, "mesh [x0=2, x1=3, x2=2]"},
      {{{2, 3}, {6}}, "mesh [x0=2, x1=3]"},
      {{{2, 3}, {3, 2}}, ""},
      {{{4, 3}, {2, 6}}, "mesh [x0=2, x1=2, x2=3]"},
      {{{8}, {8}}, "mesh [x0=8]"},
      {{{8}, {2, 4}, {4, 2}}, "mesh [x0=2, x1=2, x2=2]"},
      {{{1}, {}}, "mesh []"},
  };
  for (const Case& c : cases) {
    const auto r = refine_sizes(c.meshes);
    EXPECT_EQ(r ? to_text(r->mesh) : "", c.refined);
  }
}

TEST(Refine, keeps_the_names_of_whole_axes) {
  const std::vector<Mesh> meshes{mesh_of("mesh [dp=2, sp=2, mp=2]"), mesh_of("mesh [tp=8]")};
  const auto r = refine(meshes);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->mesh, meshes[0]);
  EXPECT_EQ(r->axes_of[0], (std::vector<Axes>{{0}, {1}, {2}}));
  EXPECT_EQ(r->axes_of[1], (std::vector<Axes>{{0, 1, 2}}));

  // dp=4 is cut into two, which need names of their own; a name that is kept is not given twice.
  const std::vector<Mesh> others{mesh_of("mesh [dp=4, x0=2]"), mesh_of("mesh [a=2, b=4]")};
  EXPECT_EQ(to_text(refine(others)->mesh), "mesh [a=2, x1=2, x0=2]");
  EXPECT_NO_THROW(check(refine(others)->mesh));
}

TEST(Refine, takes_no_axis_with_shares_apart) {
  const Mesh shared = mesh_of("mesh [dp=2 by 3:1, tp=4]");
  const auto with = [&](const char* text) {
    const auto r = refine(std::vector<Mesh>{shared, mesh_of(text)});
    return r ? to_text(r->mesh) : "";
  };
  EXPECT_EQ(with("mesh [a=2, b=2, c=2]"), "mesh [dp=2 by 3:1, b=2, c=2]");
  EXPECT_EQ(with("mesh [a=2 by 3:1, b=2, c=2]"), "mesh [dp=2 by 3:1, b=2, c=2]");
  EXPECT_EQ(with("mesh [a=8]"), "mesh [dp=2 by 3:1, tp=4]");  // equal parts are so along both
  EXPECT_EQ(with("mesh [a=8 by 1:1:1:1:2:2:2:2]"), "");
  EXPECT_EQ(with("mesh [a=2 by 1:3, b=4]"), "");
}

TEST(Refine, takes_meshes_of_one_size) {
  const std::vector<Mesh> meshes{mesh_of("mesh [a=4]"), mesh_of("mesh [b=8]")};
  EXPECT_THROW(refine(meshes), InternalError);
}

/// Every way to write n as an ordered product of factors above 1.
std::vector<std::vector<int>> factorisations(int n) {
  if (n == 1) return {{}};
  std::vector<std::vector<int>> out;
  for (int f = 2; f <= n; ++f) {
    if (n % f) continue;
    for (std::vector<int>& rest : factorisations(n / f)) {
      rest.insert(rest.begin(), f);
      out.push_back(rest);
    }
  }
  return out;
}

TEST(Refine, keeps_the_box_of_every_rank) {
  int pairs = 0;
  for (int ranks : {6, 8, 12})
    for (const auto& a : factorisations(ranks))
      for (const auto& b : factorisations(ranks)) {
        const std::vector<Mesh> meshes{mesh_of_sizes(a), mesh_of_sizes(b)};
        const auto r = refine(meshes);
        if (!r) continue;
        ++pairs;
        ASSERT_EQ(r->mesh.size(), ranks);
        ASSERT_NO_THROW(check(r->mesh));
        for (std::size_t m = 0; m < 2; ++m)
          for (const Shape& shape : {Shape{24, 24}, Shape{10, 7}})
            for (const Layout& l : all_layouts(meshes[m], shape, {.sum = false}))
              for (int rank = 0; rank < ranks; ++rank)
                ASSERT_EQ(box(translate(l, r->axes_of[m], 0), r->mesh, shape, rank),
                          box(l, meshes[m], shape, rank))
                    << to_text(meshes[m]) << " in " << to_text(r->mesh) << " " << to_text(l, meshes[m]);
      }
  EXPECT_GT(pairs, 60);
}

// What no refinement exists for: some accumulated size of one mesh divides none of the other's.
TEST(Refine, exists_exactly_if_the_accumulated_sizes_divide_each_other) {
  for (int ranks : {6, 8, 12, 24})
    for (const auto& a : factorisations(ranks))
      for (const auto& b : factorisations(ranks)) {
        const auto accumulated = [](const std::vector<int>& sizes) {
          std::set<int> out{1};
          int product = 1;
          for (std::size_t i = sizes.size(); i-- > 0;) out.insert(product *= sizes[i]);
          return out;
        };
        bool divides = true;
        for (int x : accumulated(a))
          for (int y : accumulated(b)) divides = divides && std::max(x, y) % std::min(x, y) == 0;
        ASSERT_EQ(refine_sizes({a, b}).has_value(), divides);
      }
}

}  // namespace
}  // namespace shardwright
