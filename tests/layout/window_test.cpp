// Windows against brute force: which positions a part of the outputs reads, and that the halo brings them.

#include <gtest/gtest.h>

#include <random>

#include "shardwright/layout/redistribution.h"
#include "shardwright/layout/rule.h"
#include "shardwright/layout/sharded_tensor.h"
#include "shardwright/layout/strategy.h"
#include "shardwright/layout/transfer.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

struct Geometry {
  int stride, pad, kernel, dilation, in, out;
};

std::vector<Geometry> geometries() {
  std::vector<Geometry> all;
  for (int stride : {1, 2, 3})
    for (int kernel : {1, 2, 3, 5})
      for (int dilation : {1, 2})
        for (int pad = 0; pad <= (kernel - 1) * dilation; ++pad)
          for (int in = 6; in <= 24; in += 3) {
            const int room = in + 2 * pad - (kernel - 1) * dilation - 1;
            if (room >= 0) all.push_back({stride, pad, kernel, dilation, in, room / stride + 1});
          }
  return all;
}

TEST(Window, reads_what_convolutions_read) {
  for (const Geometry& g : geometries()) {
    const int reach = (g.kernel - 1) * g.dilation;
    const Window reads{g.out, g.stride, 1, -g.pad, reach - g.pad};
    const Window read_by{g.in, 1, g.stride, g.pad - reach, g.pad};
    for (int parts : {1, 2, 3, 4})
      for (int part = 0; part < parts; ++part) {
        // Forward: the inputs that outputs of this part touch lie in the window, and its ends are touched.
        const Range outputs = cut(g.out, parts, part), inputs = reads.of(g.in, parts, part);
        std::int64_t least = g.in, most = -1;
        for (std::int64_t q = outputs.begin; q < outputs.end; ++q)
          for (int k = 0; k < g.kernel; ++k) {
            const std::int64_t p = q * g.stride + k * g.dilation - g.pad;
            if (p < 0 || p >= g.in) continue;
            least = std::min(least, p);
            most = std::max(most, p);
          }
        if (most >= 0) {
          EXPECT_LE(inputs.begin, least);
          EXPECT_GE(inputs.end, most + 1);
        }
        // Backward: the outputs that touch inputs of this part.
        const Range own = cut(g.in, parts, part), seen = read_by.of(g.out, parts, part);
        for (std::int64_t q = 0; q < g.out; ++q)
          for (int k = 0; k < g.kernel; ++k) {
            const std::int64_t p = q * g.stride + k * g.dilation - g.pad;
            if (p < own.begin || p >= own.end) continue;
            EXPECT_LE(seen.begin, q);
            EXPECT_GT(seen.end, q);
          }
      }
  }
}

TEST(Window, is_none_where_parts_read_parts) {
  const Shape x{2, 12}, y{2, 6};
  const Rule pool = bind_rule("b h~(2 1 0 1) -> b h", "", std::vector<Shape>{x}, std::vector<Shape>{y});
  EXPECT_TRUE(pool.operands[0].windows.empty());
  const Rule overlapping =
      bind_rule("b h~(2 1 -1 1) -> b h", "", std::vector<Shape>{x}, std::vector<Shape>{y});
  EXPECT_EQ(overlapping.operands[0].windows, (std::vector<Window>{{}, {6, 2, 1, -1, 1}}));
}

TEST(Window, needs_even_parts_of_both_dims) {
  const Mesh mesh{{{"a", 2}}};
  const Rule rule = bind_rule("h~(1 1 0 2) -> h", "", std::vector<Shape>{{14}}, std::vector<Shape>{{12}});
  EXPECT_EQ(violation(rule, {.loops = {Axes{0}}}, mesh), std::nullopt);
  const Rule odd = bind_rule("h~(1 1 0 1) -> h", "", std::vector<Shape>{{13}}, std::vector<Shape>{{12}});
  EXPECT_EQ(violation(odd, {.loops = {Axes{0}}}, mesh),
            "dim h reads a dim of size 13, which cannot be split evenly into 2");
}

/// Executes the steps on simulated ranks.
std::vector<Tensor> execute(const Redistribution& r, const Mesh& mesh, const Shape& shape,
                            std::vector<Tensor> parts) {
  for (const Step& step : r.steps) {
    std::vector<Tensor> next;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Transfer t = transfer_of(step, std::span(&mesh, 1), shape, rank);
      Tensor to({parts[0].dtype(), t.to_shape});
      for (const Piece& p : t.pieces)
        copy_piece(p, parts[static_cast<std::size_t>(p.source)].bytes().data(), to.bytes().data(),
                   size_of(to.dtype()));
      next.push_back(std::move(to));
    }
    parts = std::move(next);
  }
  return parts;
}

TEST(Halo, is_fetched_from_whoever_has_it) {
  const Mesh mesh{{{"a", 2}, {"b", 3}}};
  std::mt19937 random(5);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const Shape shape{12, 6 * (1 + pick(4))};
    Layout from{.dims = {Axes{}, Axes{}}}, to = from;
    if (pick(2)) from.dims[static_cast<std::size_t>(pick(2))] = Axes{pick(2)};
    to.dims[1] = pick(2) ? Axes{0, 1} : Axes{pick(2)};
    if (pick(2) && to.dims[1].size() == 1) to.dims[0] = Axes{1 - to.dims[1][0]};
    const std::int64_t low = -pick(5);
    to.windows = {{}, {shape[1], 1, 1, low, low + pick(6)}};
    const Tensor whole = testing::counting({DType::f32, shape});
    Redistributor redistributor(mesh);
    const Redistribution& r = redistributor.find(from, to, whole.type());
    const std::vector<Tensor> have = execute(r, mesh, shape, split(whole, from, mesh));
    const std::vector<Tensor> want = split(whole, to, mesh);
    for (std::size_t rank = 0; rank < want.size(); ++rank)
      ASSERT_EQ(have[rank], want[rank]) << to_text(to, mesh);
    EXPECT_EQ(r.steps.back().kind, StepKind::halo);
    std::int64_t most = 0;  // bytes that the busiest rank lacks
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Box wanted = box(to, mesh, shape, rank), held = box(without_halo(to), mesh, shape, rank);
      most = std::max(most, element_count(wanted.extent) - element_count(intersect(wanted, held).extent));
    }
    EXPECT_EQ(r.steps.back().bytes, 4 * most);
  }
}

TEST(Halo, has_a_text_form) {
  const Mesh mesh{{{"a", 2}}};
  const Layout layout{.dims = {Axes{}, Axes{0}}, .windows = {{}, {6, 2, 1, -1, 1}}};
  EXPECT_EQ(to_text(layout, mesh), "[-, a~(6 2 1 -1 1)]");
  Scanner in("[-, a~(6 2 1 -1 1)]");
  EXPECT_EQ(parse_layout(in, mesh), layout);
}

}  // namespace
}  // namespace shardwright
