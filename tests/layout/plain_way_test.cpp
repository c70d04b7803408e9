#include "shardwright/layout/plain_way.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace shardwright {
namespace {

/// All layouts of a tensor of `rank` dims on `mesh` that are not partial(max), axes of a dim in the mesh's order.
std::vector<Layout> layouts_on(const Mesh& mesh, std::size_t rank) {
  std::vector<Layout> out{replicated(rank)};
  for (int a = 0; a < mesh.axis_count(); ++a) {
    std::vector<Layout> next;
    for (const Layout& l : out) {
      next.push_back(l);
      for (std::size_t d = 0; d < rank; ++d) {
        next.push_back(l);
        next.back().dims[d].push_back(a);
      }
      next.push_back(l);
      next.back().sum.push_back(a);
    }
    out = std::move(next);
  }
  return out;
}

struct Compared {
  int pairs = 0, near = 0;
  double least = 1, most = 1;  // of the ratios
};

Compared compared(const Mesh& mesh, const Shape& shape) {
  Redistributor redistributor(mesh);
  const MeshCost cost = uniform_cost(mesh);
  const Type type{DType::f32, shape};
  const double copy = static_cast<double>(type.bytes()) * cost.copy_seconds_per_byte;
  Compared out;
  const std::vector<Layout> all = layouts_on(mesh, shape.size());
  for (const Layout& from : all)
    for (const Layout& to : all) {
      // Copies of one's own parts are no matter of ways: they are made one by one or at once.
      const double ratio = (plain_seconds(from, to, type, mesh, cost) + copy) /
                           (redistributor.find(from, to, type).seconds + copy);
      ++out.pairs;
      out.near += ratio > 0.9 && ratio < 1.1;
      out.least = std::min(out.least, ratio);
      out.most = std::max(out.most, ratio);
    }
  return out;
}

TEST(PlainWay, is_nearly_the_cheapest_for_most_pairs) {
  for (const Mesh& mesh :
       {Mesh{{{"a", 8}}}, Mesh{{{"a", 2}, {"b", 4}}}, Mesh{{{"a", 2}, {"b", 2}, {"c", 2}}}})
    for (const Shape& shape : {Shape{64, 64}, Shape{4096, 4096}, Shape{16, 16, 16}}) {
      if (mesh.axis_count() == 3 && shape.size() == 3) continue;  // 15,625 pairs to search
      const Compared c = compared(mesh, shape);
      std::printf("%s, %zu dims: %d pairs, near %d, ratios %.2f to %.2f\n", to_text(mesh).c_str(),
                  shape.size(), c.pairs, c.near, c.least, c.most);
      EXPECT_GE(c.near, (mesh.axis_count() < 3 ? 0.8 : 0.55) * c.pairs);
      EXPECT_GE(c.least, 0.4);
      EXPECT_LE(c.most, 3);
    }
}

TEST(PlainWay, of_one_collective_is_what_that_costs) {
  const Mesh mesh{{{"a", 2}, {"b", 4}}};
  const Type type{DType::f32, {4096, 4096}};
  const auto layout = [&](const std::string& text) {
    Scanner in(text);
    return parse_layout(in, mesh);
  };
  Redistributor redistributor(mesh);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"[a, -]", "[-, -]"},
                                                        {"[a.b, -]", "[-, -]"},
                                                        {"[-, -] sum(b)", "[-, -]"},
                                                        {"[-, -] sum(a, b)", "[a.b, -]"},
                                                        {"[b, -]", "[-, b]"},
                                                        {"[a, b]", "[a, b]"}})
    EXPECT_DOUBLE_EQ(plain_seconds(layout(from), layout(to), type, mesh, uniform_cost(mesh)),
                     redistributor.find(layout(from), layout(to), type).seconds)
        << from << " to " << to;
}

}  // namespace
}  // namespace shardwright
