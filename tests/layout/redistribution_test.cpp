// Every redistribution is executed on simulated ranks: what comes out is the whole tensor in the asked
// layout.

#include "shardwright/layout/redistribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "shardwright/layout/sharded_tensor.h"
#include "shardwright/layout/transfer.h"
#include "tests/support/draws.h"
#include "tests/support/layouts.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::all_layouts;
using testing::Draw;
using testing::layout_of;
using testing::mesh_of;

struct Pair {
  Layout from, to;
};

/// What the ranks hold, in `layout`, of 0, 1, 2, ...; addends and candidates that are not trivial.
std::vector<Tensor> parts_of(const Tensor& whole, const Layout& layout, const Mesh& mesh) {
  std::vector<Tensor> parts = split(whole, layout, mesh);
  if (!layout.is_partial()) return parts;
  // Spread the value over the partial axes: rank i of n holds i + 1, and rank 0 what is left; or less than
  // it.
  const Axes& partial = layout.sum.empty() ? layout.max : layout.sum;
  for (int r = 0; r < mesh.size(); ++r) {
    const std::vector<int> group = mesh.group_of(r, partial);
    if (group.front() != r) continue;
    auto first = parts[static_cast<std::size_t>(r)].as<double>();
    for (std::size_t i = 1; i < group.size(); ++i) {
      auto other = parts[static_cast<std::size_t>(group[i])].as<double>();
      for (std::size_t e = 0; e < other.size(); ++e) {
        const double share = static_cast<double>(i) + static_cast<double>(e % 3);
        other[e] = layout.sum.empty() ? first[e] - share : share;
        if (!layout.sum.empty()) first[e] -= share;
      }
    }
    // The largest candidate is the last one's.
    if (layout.sum.empty())
      std::swap(parts[static_cast<std::size_t>(r)], parts[static_cast<std::size_t>(group.back())]);
  }
  return parts;
}

/// Executes `steps` and says what is wrong with the result, or nothing.
std::string wrong_with(const Redistribution& r, const std::vector<Mesh>& meshes, const Pair& pair,
                       const Tensor& whole) {
  const Mesh& from_mesh = meshes[static_cast<std::size_t>(pair.from.mesh)];
  const Mesh& to_mesh = meshes[static_cast<std::size_t>(pair.to.mesh)];
  std::vector<Tensor> parts = parts_of(whole, pair.from, from_mesh);
  Layout now = pair.from;
  for (const Step& step : r.steps) {
    if (step.from != now) return "a step starts from another layout";
    parts = apply(step, meshes, whole.shape(), parts);
    now = step.to;
  }
  if (now != pair.to) return "the last step ends in another layout";
  for (int rank = 0; rank < to_mesh.size(); ++rank)
    if (parts[static_cast<std::size_t>(rank)].shape() != box(pair.to, to_mesh, whole.shape(), rank).extent)
      return "a rank's part has another shape than its box";
  try {
    if (join(parts, pair.to, to_mesh, whole.shape()) != whole) return "the values differ";
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string told(const Pair& pair, const std::vector<Mesh>& meshes, const Shape& shape) {
  return fmt::format("{} {} -> {} of {}", to_text(meshes[0]),
                     to_text(pair.from, meshes[static_cast<std::size_t>(pair.from.mesh)]),
                     to_text(pair.to, meshes[static_cast<std::size_t>(pair.to.mesh)]), to_text(shape));
}

/// Bytes of the smallest and of the largest part.
std::pair<std::int64_t, std::int64_t> part_bytes(const Layout& layout, const Mesh& mesh, const Type& type) {
  std::int64_t least = type.bytes(), most = 0;
  for (int r = 0; r < mesh.size(); ++r) {
    const std::int64_t own = Type{type.dtype, box(layout, mesh, type.shape, r).extent}.bytes();
    least = std::min(least, own);
    most = std::max(most, own);
  }
  return {least, most};
}

/// What the busiest rank receives if everything is reduced, gathered, and then sliced.
std::int64_t bytes_of_gathering_all(const Layout& from, const Mesh& mesh, const Type& type) {
  const auto [least, most] = part_bytes(from, mesh, type);
  const int n = mesh.count(from.sum.with(from.max));
  const std::int64_t bytes = 2 * (most - most / n) + (type.bytes() - least);
  // Of unequal parts, steps count each the busiest rank, which is another one in each.
  // A local step counts as much as ten bytes.
  return (least == most ? bytes : bytes + bytes / 4) + 10 * mesh.axis_count();
}

/// The least that the busiest rank must receive: what of its box of `to` it does not hold. Not for partials.
std::int64_t bytes_needed(const Layout& from, const Layout& to, const Mesh& mesh, const Type& type) {
  std::int64_t most = 0;
  for (int r = 0; r < mesh.size(); ++r) {
    const Box want = box(to, mesh, type.shape, r);
    const Box have = intersect(want, box(from, mesh, type.shape, r));
    most = std::max(most, element_count(want.extent) - element_count(have.extent));
  }
  return most * static_cast<std::int64_t>(size_of(type.dtype));
}

std::vector<Pair> all_pairs(const Mesh& mesh, const Shape& shape) {
  std::vector<Pair> out;
  const std::vector<Layout> targets = all_layouts(mesh, shape);
  for (const Layout& from : all_layouts(mesh, shape, {.max = true}))
    for (const Layout& to : targets)
      if (from != to) out.push_back({from, to});
  return out;
}

struct Case {
  std::string mesh;
  Shape shape;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.mesh << " " << to_text(c.shape); }

class AllPairs : public ::testing::TestWithParam<Case> {
 protected:
  const Mesh mesh_ = mesh_of(GetParam().mesh);
  const Type type_{DType::f64, GetParam().shape};
  const std::vector<Pair> pairs_ = all_pairs(mesh_, type_.shape);
  Redistributor redistributor_{mesh_};
};

TEST_P(AllPairs, give_the_whole_tensor_in_the_asked_layout) {
  const Tensor whole = testing::counting(type_);
  for (const Pair& p : pairs_) {
    const Redistribution& r = redistributor_.find(p.from, p.to, type_);
    ASSERT_EQ(wrong_with(r, {mesh_}, p, whole), "")
        << told(p, {mesh_}, type_.shape) << ": " << to_text(r, redistributor_.meshes());
  }
}

TEST_P(AllPairs, never_move_more_than_gathering_everything) {
  for (const Pair& p : pairs_) {
    const Redistribution& r = redistributor_.find(p.from, p.to, type_);
    ASSERT_LE(r.bytes, bytes_of_gathering_all(p.from, mesh_, type_))
        << told(p, {mesh_}, type_.shape) << ": " << to_text(r, redistributor_.meshes());
  }
}

TEST_P(AllPairs, move_nothing_where_nothing_is_needed) {
  for (const Pair& p : pairs_) {
    if (p.from.is_partial() || p.to.is_partial()) continue;
    const Redistribution& r = redistributor_.find(p.from, p.to, type_);
    ASSERT_EQ(r.collective_count() == 0, bytes_needed(p.from, p.to, mesh_, type_) == 0)
        << told(p, {mesh_}, type_.shape) << ": " << to_text(r, redistributor_.meshes());
  }
}

// A path slices and scatters only over axes that its target uses, so only detours by such layouts compete.
TEST_P(AllPairs, cost_no_more_than_a_detour) {
  Draw draw(1);
  const std::vector<Layout> all = all_layouts(mesh_, type_.shape, {.sum = false});
  for (unsigned i = 0; i < testing::draws(2000); ++i) {
    const Layout &from = draw.from(all), &over = draw.from(all), &to = draw.from(all);
    if (!over.used().without(to.used()).empty()) continue;
    const double direct = redistributor_.find(from, to, type_).seconds;
    const double detour =
        redistributor_.find(from, over, type_).seconds + redistributor_.find(over, to, type_).seconds;
    ASSERT_LE(direct, detour + 1e-12)
        << told({from, to}, {mesh_}, type_.shape) << " by " << to_text(over, mesh_);
  }
}

INSTANTIATE_TEST_SUITE_P(Redistribution, AllPairs,
                         ::testing::Values(Case{"mesh [a=2, b=2]", {4, 4}}, Case{"mesh [a=2, b=2]", {5, 7}},
                                           Case{"mesh [a=2, b=3]", {6, 6}}, Case{"mesh [a=2, b=3]", {5, 7}},
                                           Case{"mesh [a=4, b=2]", {8, 8}}, Case{"mesh [a=4, b=2]", {6, 6}},
                                           Case{"mesh [a=4, b=2]", {5, 7}}));

// Small tensors are moved with few collectives, large ones with few bytes.
class LargePairs : public AllPairs {};

TEST_P(LargePairs, move_little_more_than_is_needed) {
  for (const Pair& p : pairs_) {
    if (p.from.is_partial() || p.to.is_partial()) continue;
    const Redistribution& r = redistributor_.find(p.from, p.to, type_);
    const auto needed = static_cast<double>(bytes_needed(p.from, p.to, mesh_, type_));
    ASSERT_GE(static_cast<double>(r.bytes), needed) << told(p, {mesh_}, type_.shape);
    ASSERT_LE(static_cast<double>(r.bytes), 1.5 * needed)
        << told(p, {mesh_}, type_.shape) << ": " << to_text(r, redistributor_.meshes());
    ASSERT_EQ(r.collective_count() == 0, needed == 0)
        << told(p, {mesh_}, type_.shape) << ": " << to_text(r, redistributor_.meshes());
  }
}

INSTANTIATE_TEST_SUITE_P(Redistribution, LargePairs,
                         ::testing::Values(Case{"mesh [a=2, b=2]", {4096, 4096}},
                                           Case{"mesh [a=2, b=3]", {4001, 4003}},
                                           Case{"mesh [a=4, b=2]", {8192, 4096}}));

/// With runs that stay together, as long as the `i`th divisor of each dim that is cut; every other by shares.
Layout in_runs(Layout layout, const Mesh& mesh, const Shape& shape, int i) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t g = 1; g <= shape[d]; ++g)
      if (shape[d] % g == 0) divisors.push_back(g);
    const std::int64_t grain = divisors[static_cast<std::size_t>(i) % divisors.size()];
    layout.dims[d] = settled(layout.dims[d].of_grain(grain).by_shares(i % 2 > 0), mesh, shape[d]);
  }
  return layout;
}

TEST(Redistribution, of_random_pairs_is_right_on_three_axes) {
  for (const char* text : {"mesh [a=2, b=2, c=2]", "mesh [a=2, b=3, c=2]", "mesh [a=1, b=2, c=3]",
                           "mesh [a=2 by 3:1, b=3, c=2]", "mesh [a=2 by 1:5, b=3 by 1:2:1, c=2]"})
    for (const Shape& shape : {Shape{8, 8}, Shape{7, 5}, Shape{4, 8, 6}, Shape{3, 5, 7}, Shape{9}}) {
      const Mesh mesh = mesh_of(text);
      const Type type{DType::f64, shape};
      const Tensor whole = testing::counting(type);
      Redistributor redistributor(mesh);
      Draw draw(7);
      for (int i = 0; i < 150; ++i) {
        Pair p{draw.layout(mesh, shape.size(), {.max = true}), draw.layout(mesh, shape.size())};
        if (i % 3 > 0) p.from = in_runs(p.from, mesh, shape, i);
        if (i % 3 > 1) p.to = in_runs(p.to, mesh, shape, i / 3);
        const Redistribution& r = redistributor.find(p.from, p.to, type);
        ASSERT_EQ(wrong_with(r, {mesh}, p, whole), "")
            << told(p, {mesh}, shape) << ": " << to_text(r, redistributor.meshes()) << " (draw " << i << ")";
        if (i % 3 > 0) continue;  // runs make parts as unequal as they please
        ASSERT_LE(r.bytes, bytes_of_gathering_all(p.from, mesh, type))
            << told(p, {mesh}, shape) << ": " << to_text(r, redistributor.meshes());
      }
    }
}

// ---- which steps ----

struct Named {
  std::string mesh, from, to, steps;
  std::int64_t size = 24;
};

TEST(Redistribution, takes_these_steps) {
  const std::string m = "mesh [dp=2, sp=2, mp=2]", u = "mesh [a=2, b=3]", d = "mesh [dp=4]";
  const std::vector<Named> cases = {
      {m, "[mp, -]", "[mp, -]", "nothing"},
      // A shard moves from dim to dim with one all_to_all, over one axis or several.
      {m, "[mp, -]", "[-, mp]", "all_to_all(dim 0 to 1, mp)"},
      {m, "[dp.sp.mp, -]", "[-, dp.sp.mp]", "all_to_all(dim 0 to 1, dp.sp.mp)"},
      {m, "[dp.mp, -]", "[dp, mp]", "all_to_all(dim 0 to 1, mp)"},
      {d, "[dp, -, -, -]", "[-, -, -, dp]", "all_to_all(dim 0 to 3, dp)"},
      // Axes of one size change places or replace each other.
      {m, "[mp, sp]", "[sp, mp]", "permute(sp.mp)"},
      {m, "[mp, -]", "[sp, -]", "permute(sp.mp)"},
      {m, "[dp.sp, -]", "[sp.dp, -]", "permute(dim 0, dp.sp)"},
      {m, "[mp, sp.dp]", "[sp, dp.mp]", "exchange([mp, sp.dp] to [sp, dp.mp])"},
      // Partial sums.
      {m, "[-, -] sum(mp)", "[-, -]", "all_reduce.sum(mp)"},
      {m, "[-, -] sum(mp)", "[mp, -]", "reduce_scatter(dim 0, mp)"},
      {m, "[dp, -] sum(mp)", "[dp, mp]", "reduce_scatter(dim 1, mp)"},
      {m, "[-, -] sum(sp, mp)", "[mp.sp, -]", "reduce_scatter(dim 0, mp.sp)"},
      {m, "[mp, -] sum(dp, sp)", "[mp.sp.dp, -]", "reduce_scatter(dim 0, sp.dp)"},
      {m, "[-, -] sum(dp, sp, mp)", "[-, -]", "all_reduce.sum(dp.sp.mp)"},
      {m, "[-, -] max(mp)", "[-, -]", "all_reduce.max(mp)"},
      {m, "[-, -] max(mp)", "[mp, -]", "all_reduce.max(mp); slice(dim 0, mp)"},
      {m, "[-, -]", "[-, -] sum(mp)", "mask(mp)"},
      // Gathers and slices.
      {m, "[dp.sp.mp, -]", "[-, -]", "all_gather(dim 0, dp.sp.mp)"},
      {m, "[-, -]", "[dp, sp]", "slice(dim 1, sp); slice(dim 0, dp)"},
      {m, "[dp.mp, -]", "[dp, -]", "all_gather(dim 0, mp)"},
      {u, "[a, b]", "[a, -]", "all_gather(dim 1, b)"},
      {u, "[-, -] sum(a)", "[b, a]", "slice(dim 0, b); reduce_scatter(dim 1, a)"},
      {u, "[a, -]", "[-, -] sum(b)", "mask(b); all_gather(dim 0, a)"},
      // Where latency decides, few collectives; where bytes do, what moves little.
      {u, "[a.b, -]", "[b, a]", "all_gather(dim 0, a.b); slice(dim 0, b); slice(dim 1, a)"},
      {u, "[a.b, -]", "[b, a]", "exchange([a.b, -] to [b, a])", 6000},
  };
  for (const Named& c : cases) {
    const Mesh mesh = mesh_of(c.mesh);
    const Layout from = layout_of(c.from, mesh);
    const Type type{DType::f32, from.dims.size() == 2 ? Shape{c.size, c.size} : Shape{8, 8, 8, 8}};
    Redistributor redistributor(mesh);
    EXPECT_EQ(to_text(redistributor.find(from, layout_of(c.to, mesh), type), redistributor.meshes()), c.steps)
        << c.from << " -> " << c.to;
  }
}

TEST(Redistribution, moves_any_shard_between_dims_with_one_all_to_all) {
  const Mesh mesh = mesh_of("mesh [a=2, b=2, c=3]");
  const Type type{DType::f32, {24, 24, 24}};
  Redistributor redistributor(mesh);
  for (const char* others : {"", "b", "c"})
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to) {
        if (from == to) continue;
        Layout u = replicated(3), v = replicated(3);
        const int third = 3 - from - to;
        if (*others)
          u.dims[static_cast<std::size_t>(third)] =
              v.dims[static_cast<std::size_t>(third)] = {mesh.axis(others)};
        u.dims[static_cast<std::size_t>(from)] = {0};
        v.dims[static_cast<std::size_t>(to)] = {0};
        EXPECT_EQ(to_text(redistributor.find(u, v, type), redistributor.meshes()),
                  fmt::format("all_to_all(dim {} to {}, a)", from, to));
      }
}

// The layouts of the described system's own tests (facts 2.5), on the refinement of their device matrices.
TEST(Redistribution, between_device_matrices_takes_these_steps) {
  struct Matrices {
    std::vector<int> from_sizes, to_sizes;
    std::vector<Axes> from, to;
    Shape shape;
    std::string steps;
  };
  const std::vector<Matrices> cases = {
      {{16, 1, 1}, {1, 16, 1}, {{0}, {}}, {{}, {1}}, {512, 1024}, "all_to_all(dim 0 to 1, x0)"},
      {{8}, {8}, {{0}, {}, {}, {}}, {{0}, {}, {}, {}}, {128, 64, 1, 1}, "nothing"},
      {{2, 4, 2}, {4, 2, 2}, {{0}, {2}}, {{0}, {1}}, {512, 1024}, "slice(dim 0, x1); permute(x2.x3)"},
  };
  for (const Matrices& c : cases) {
    std::vector<Mesh> meshes{testing::mesh_of_sizes(c.from_sizes), testing::mesh_of_sizes(c.to_sizes)};
    for (Mesh& mesh : meshes)
      for (Axis& a : mesh.axes) a.name = "";
    const auto refined = refine(meshes);
    ASSERT_TRUE(refined);
    const Pair p{translate({.dims = c.from, .sum = {}, .max = {}}, refined->axes_of[0], 0),
                 translate({.dims = c.to, .sum = {}, .max = {}}, refined->axes_of[1], 0)};
    const Type type{DType::f64, c.shape};
    Redistributor redistributor(refined->mesh);
    const Redistribution& r = redistributor.find(p.from, p.to, type);
    EXPECT_EQ(to_text(r, redistributor.meshes()), c.steps);
    EXPECT_EQ(wrong_with(r, {refined->mesh}, p, testing::counting(type)), "");
  }
}

TEST(Redistribution, counts_what_a_rank_receives) {
  const Mesh mesh = mesh_of("mesh [dp=4]");
  const Type type{DType::f32, {1024, 4}};  // 16 KiB whole, 4 KiB a quarter
  Redistributor redistributor(mesh);
  const auto bytes = [&](const char* from, const char* to) {
    return redistributor.find(layout_of(from, mesh), layout_of(to, mesh), type).bytes;
  };
  EXPECT_EQ(bytes("[dp, -]", "[-, -]"), 3 * 4096);
  EXPECT_EQ(bytes("[dp, -]", "[-, dp]"), 3 * 1024);
  EXPECT_EQ(bytes("[-, -] sum(dp)", "[dp, -]"), 3 * 4096);
  EXPECT_EQ(bytes("[-, -] sum(dp)", "[-, -]"), 2 * 3 * 4096);
  EXPECT_EQ(bytes("[-, -]", "[dp, -]"), 0);
  EXPECT_EQ(bytes("[-, -]", "[-, -] sum(dp)"), 0);
}

// What a rank holds does not depend on what the axes are called or on which dim is which.
TEST(Redistribution, costs_the_same_whatever_dims_and_axes_are_called) {
  const Mesh mesh = mesh_of("mesh [a=2, b=2]");
  const Type type{DType::f32, {16, 16}};
  Redistributor redistributor(mesh);
  const auto transposed = [](Layout l) {
    std::swap(l.dims[0], l.dims[1]);
    return l;
  };
  const auto renamed = [](Layout l) {
    const auto swapped = [](const Axes& axes) {
      Axes out;
      for (int a : axes) out.push_back(1 - a);
      return out;
    };
    for (Axes& d : l.dims) d = swapped(d);
    l.sum = swapped(l.sum).sorted();
    l.max = swapped(l.max).sorted();
    return l;
  };
  for (const Pair& p : all_pairs(mesh, type.shape)) {
    const Redistribution& r = redistributor.find(p.from, p.to, type);
    const Redistribution& t = redistributor.find(transposed(p.from), transposed(p.to), type);
    const Redistribution& n = redistributor.find(renamed(p.from), renamed(p.to), type);
    ASSERT_NEAR(r.seconds, t.seconds, 1e-12) << told(p, {mesh}, type.shape);
    ASSERT_NEAR(r.seconds, n.seconds, 1e-12) << told(p, {mesh}, type.shape);
  }
}

TEST(Redistribution, of_even_layouts_stays_even_if_asked) {
  const Mesh mesh = mesh_of("mesh [a=2, b=3]");
  for (const Shape& shape : {Shape{6, 6}, Shape{4, 9}, Shape{2, 3}, Shape{6, 5}}) {
    const Type type{DType::f64, shape};
    Redistributor redistributor(mesh, {.even_only = true});
    const Tensor whole = testing::counting(type);
    const std::vector<Layout> all = all_layouts(mesh, shape, {.max = true, .uneven = false});
    for (const Layout& from : all)
      for (const Layout& to : all) {
        if (from == to || !to.max.empty()) continue;
        const Redistribution& r = redistributor.find(from, to, type);
        for (const Step& s : r.steps) ASSERT_TRUE(is_even(s.to, mesh, shape)) << to_text(r, {{mesh}});
        ASSERT_EQ(wrong_with(r, {mesh}, {from, to}, whole), "") << told({from, to}, {mesh}, shape);
      }
  }
}

TEST(Redistribution, cannot_make_a_value_the_largest_of_candidates) {
  const Mesh mesh = mesh_of("mesh [a=2]");
  Redistributor redistributor(mesh);
  EXPECT_THROW(redistributor.find(replicated(1), layout_of("[-] max(a)", mesh), {DType::f32, {4}}),
               InternalError);
}

TEST(Redistribution, prefers_the_fast_axis) {
  const Mesh mesh = mesh_of("mesh [far=2, near=2]");
  Redistributor redistributor({mesh}, {{{{1e-4, 1e-8}, {1e-6, 1e-11}}}});
  // Both ways are one collective; gathering over the near axis leaves half the bytes to the far one.
  const Redistribution& r = redistributor.find(layout_of("[far.near, -]", mesh),
                                               layout_of("[far, near]", mesh), {DType::f32, {64, 64}});
  EXPECT_EQ(to_text(r, redistributor.meshes()), "all_to_all(dim 0 to 1, near)");
  for (const Step& s : r.steps) EXPECT_LT(s.seconds, 1e-4);
}

// ---- across meshes ----

TEST(Redistribution, across_meshes_is_right) {
  struct Meshes {
    std::string a, b;
  };
  for (const Meshes& m : {Meshes{"mesh [a=2, b=3]", "mesh [c=3, d=2]"},
                          Meshes{"mesh [a=2, b=2]", "mesh [c=4]"}, Meshes{"mesh [a=6]", "mesh [c=3, d=2]"}})
    for (const Shape& shape : {Shape{6, 6}, Shape{5, 7}}) {
      const std::vector<Mesh> meshes{mesh_of(m.a), mesh_of(m.b)};
      const Type type{DType::f64, shape};
      const Tensor whole = testing::counting(type);
      Redistributor redistributor(meshes, {uniform_cost(meshes[0]), uniform_cost(meshes[1])});
      for (int direction = 0; direction < 2; ++direction)
        for (Layout from : all_layouts(meshes[static_cast<std::size_t>(direction)], shape, {.max = true}))
          for (Layout to : all_layouts(meshes[static_cast<std::size_t>(1 - direction)], shape)) {
            from.mesh = from.used().empty() ? 0 : direction;
            to.mesh = to.used().empty() ? 0 : 1 - direction;
            const Redistribution& r = redistributor.find(from, to, type);
            ASSERT_EQ(wrong_with(r, meshes, {from, to}, whole), "")
                << told({from, to}, meshes, shape) << ": " << to_text(r, meshes);
            ASSERT_LE(r.bytes,
                      bytes_of_gathering_all(from, meshes[static_cast<std::size_t>(from.mesh)], type))
                << told({from, to}, meshes, shape) << ": " << to_text(r, meshes);
          }
    }
}

TEST(Redistribution, across_meshes_without_refinement_is_one_exchange) {
  const std::vector<Mesh> meshes{mesh_of("mesh [a=2, b=3]"), mesh_of("mesh [c=3, d=2]")};
  Redistributor redistributor(meshes, {uniform_cost(meshes[0]), uniform_cost(meshes[1])});
  Layout to = layout_of("[c, d]", meshes[1]);
  to.mesh = 1;
  const auto text = [&](const char* from) {
    return to_text(redistributor.find(layout_of(from, meshes[0]), to, {DType::f32, {6000, 6000}}), meshes);
  };
  EXPECT_EQ(text("[a, b]"), "exchange([a, b] to [c, d])");
  EXPECT_EQ(text("[a, -] sum(b)"), "reduce_scatter(dim 0, b); exchange([a.b, -] to [c, d])");
}

/// Also of small tensors: there is no way but to gather all.
TEST(Redistribution, across_meshes_without_refinement_moves_only_what_is_wanted) {
  const std::vector<Mesh> meshes{mesh_of("mesh [a=3, b=2]"), mesh_of("mesh [c=2, d=3]")};
  Redistributor redistributor(meshes, {uniform_cost(meshes[0]), uniform_cost(meshes[1])});
  Layout to = layout_of("[c, d]", meshes[1]);
  to.mesh = 1;
  const Redistribution& r = redistributor.find(layout_of("[a, b]", meshes[0]), to, {DType::f32, {12, 12}});
  EXPECT_EQ(to_text(r, meshes), "exchange([a, b] to [c, d])");
  EXPECT_LE(r.bytes, 96);  // a slice
}

// The layouts of 2x2x2 and of 8 devices are one redistribution on their refinement.
TEST(Redistribution, across_refined_meshes_needs_no_exchange) {
  const std::vector<Mesh> given{mesh_of("mesh [dp=2, sp=2, mp=2]"), mesh_of("mesh [tp=8]")};
  const auto refined = refine(given);
  ASSERT_TRUE(refined);
  Redistributor redistributor(refined->mesh);
  const auto steps = [&](const char* from, const char* to) {
    const Pair p{translate(layout_of(from, given[0]), refined->axes_of[0], 0),
                 translate(layout_of(to, given[1]), refined->axes_of[1], 0)};
    const Type type{DType::f64, {24, 24}};
    const Redistribution& r = redistributor.find(p.from, p.to, type);
    EXPECT_EQ(wrong_with(r, {refined->mesh}, p, testing::counting(type)), "");
    return to_text(r, redistributor.meshes());
  };
  EXPECT_EQ(steps("[dp.sp.mp, -]", "[tp, -]"), "nothing");
  EXPECT_EQ(steps("[dp.sp.mp, -]", "[-, tp]"), "all_to_all(dim 0 to 1, dp.sp.mp)");
  EXPECT_EQ(steps("[-, -] sum(dp, sp, mp)", "[tp, -]"), "reduce_scatter(dim 0, dp.sp.mp)");
  EXPECT_EQ(steps("[dp, -]", "[tp, -]"), "slice(dim 0, sp); slice(dim 0, mp)");
}

// ---- how long it takes ----

TEST(Redistribution, of_four_axes_and_four_dims_is_found_soon) {
  const Mesh mesh = mesh_of("mesh [a=2, b=2, c=2, d=2]");
  const Type type{DType::f64, {16, 16, 16, 16}};
  double worst = 0;
  Draw draw(3);
  for (int i = 0; i < 20; ++i) {
    Redistributor redistributor(mesh);
    const Pair p{draw.layout(mesh, 4), draw.layout(mesh, 4)};
    const auto start = std::chrono::steady_clock::now();
    const Redistribution& r = redistributor.find(p.from, p.to, type);
    worst = std::max(worst,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e3);
    ASSERT_LE(r.bytes, bytes_of_gathering_all(p.from, mesh, type)) << told(p, {mesh}, type.shape);
  }
  RecordProperty("worst_milliseconds", fmt::format("{:.1f}", worst));
  fmt::print("slowest of 20 finds: {:.1f} ms\n", worst);
}

/// Axes in some order, each on a dim, partial (where that may be), or unused. Neighbours often go together.
Layout drawn_layout(const Mesh& mesh, const Shape& shape, testing::Draw& draw, bool may_be_partial) {
  Layout out = replicated(shape.size());
  int place = 0;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const int places = static_cast<int>(shape.size()) + 1 + (may_be_partial ? 1 : 0);
    if (a == 0 || draw.below(2) == 0) place = draw.below(places);
    const auto dims = static_cast<int>(shape.size());
    if (place < dims)
      out.dims[static_cast<std::size_t>(place)].push_back(a);
    else if (place > dims)
      out.sum.push_back(a);
  }
  return out;
}

TEST(Redistribution, of_many_axes_is_right_and_found_at_once) {
  const Mesh mesh = mesh_of("mesh [a=2, b=2, c=2, d=2, e=2, f=2, g=2, h=2]");
  const Type type{DType::f64, {256, 256}};
  const Tensor whole = testing::counting(type);
  Redistributor redistributor{mesh};
  testing::Draw draw(1);
  for (unsigned i = 0; i < testing::draws(60); ++i) {
    const Pair p{drawn_layout(mesh, type.shape, draw, true), drawn_layout(mesh, type.shape, draw, false)};
    if (p.from == p.to) continue;
    const Redistribution& r = redistributor.find(p.from, p.to, type);
    ASSERT_EQ(wrong_with(r, {mesh}, p, whole), "")
        << told(p, {mesh}, type.shape) << ": " << to_text(r, redistributor.meshes());
    ASSERT_LE(r.bytes, bytes_of_gathering_all(p.from, mesh, type)) << told(p, {mesh}, type.shape);
  }
}

TEST(Redistribution, of_axes_that_go_together_is_that_of_one_axis) {
  const Mesh many = mesh_of("mesh [a=2, b=2, c=2, d=2]"), one = mesh_of("mesh [a=16]");
  const Type type{DType::f32, {64, 64}};
  Redistributor of_many{many}, of_one{one};
  const auto layout = [](const std::string& text, const Mesh& mesh) {
    Scanner in(text, "test");
    return parse_layout(in, mesh);
  };
  const Redistribution& r = of_many.find(layout("[a.b.c.d, -]", many), layout("[-, a.b.c.d]", many), type);
  const Redistribution& want = of_one.find(layout("[a, -]", one), layout("[-, a]", one), type);
  EXPECT_EQ(r.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(r.seconds, want.seconds);
  EXPECT_EQ(r.bytes, want.bytes);
}

}  // namespace
}  // namespace shardwright
