#include "shardwright/cost/compute.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

WorkKind kind_of(std::string_view rule, const std::vector<Shape>& operands,
                 const std::vector<Shape>& results = {}) {
  return work_kind(bind_rule(rule, "", operands, results));
}

TEST(WorkKind, is_read_off_the_rule) {
  using enum WorkKind;
  EXPECT_EQ(kind_of("m k+, k+ n -> m n", {{4, 8}, {8, 6}}), contraction);
  EXPECT_EQ(kind_of("b+ k, b+ n -> k n", {{4, 8}, {4, 6}}), contraction);
  EXPECT_EQ(
      kind_of("b (h r) s d^, b h t^ d^, b h t^ e -> b (h r) s e", {{2, 4, 6, 8}, {2, 4, 6, 8}, {2, 4, 6, 8}}),
      chain);  // two products, one of which reads what the other makes
  EXPECT_EQ(
      kind_of("b c+ h~(1 1 -1 1) w, o c+ kh^ w -> b o h w", {{2, 4, 8, 8}, {6, 4, 3, 8}}, {{2, 6, 8, 8}}),
      convolution);
  EXPECT_EQ(kind_of("b+ c h+~(1 1 -1 1), b+ o h+ -> o c kh", {{2, 4, 8}, {2, 6, 8}}, {{6, 4, 3}}),
            weight_convolution);
  EXPECT_EQ(kind_of("b c h~(2 1 0 1) -> b c h", {{2, 4, 8}}, {{2, 4, 4}}), streaming);
  EXPECT_EQ(kind_of("m n, m n -> m n", {{4, 8}, {4, 8}}), streaming);
  // A sum over both operands, but every element is used once: a norm's gradient, a matrix times a vector.
  EXPECT_EQ(kind_of("m+ n, m+ n -> n", {{4, 8}, {4, 8}}), streaming);
  EXPECT_EQ(kind_of("m k+, k+ -> m", {{4, 8}, {8}}), streaming);
  // Rows of a table: the reduced dim is the table's alone.
  EXPECT_EQ(kind_of("b, v+ h -> b h", {{4}, {16, 8}}), streaming);
}

TEST(ComputeSeconds, of_large_work_is_at_the_share_of_the_peak_that_is_reached) {
  Cluster cluster = cluster_called("v100-32g:1");
  cluster.efficiency = {{{0.5, 0}, {0.25, 0}, {0.5, 0}}};
  cluster.kernel_seconds = 0;
  EXPECT_DOUBLE_EQ(compute_seconds({WorkKind::contraction, 125e12, 0, DType::f16}, cluster), 2);
  EXPECT_DOUBLE_EQ(compute_seconds({WorkKind::convolution, 125e12, 0, DType::f16}, cluster), 4);
  EXPECT_DOUBLE_EQ(compute_seconds({WorkKind::contraction, 15.7e12, 0, DType::f32}, cluster), 2);
  EXPECT_DOUBLE_EQ(compute_seconds({WorkKind::contraction, 1, 900e9, DType::f32}, cluster), 2);
}

TEST(ComputeSeconds, of_work_of_half_seconds_are_twice_those_at_the_best_rate) {
  Cluster cluster = cluster_called("v100-32g:1");
  cluster.efficiency = {{{0.5, 1e-3}, {1, 0}, {1, 0}}};
  cluster.kernel_seconds = 7e-6;
  EXPECT_DOUBLE_EQ(compute_seconds({WorkKind::contraction, 125e9, 0, DType::f16}, cluster), 7e-6 + 4e-3);
}

TEST(ComputeSeconds, of_bytes_are_at_the_rate_of_where_they_lie) {
  Cluster cluster = cluster_called("v100-32g:1");
  cluster.efficiency = {{{1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}};
  cluster.kernel_seconds = 0;
  cluster.memory_bytes_per_second = 1e9;
  cluster.caches = {{1000, 10e9}, {1000000, 2e9}};
  Work work{.kind = WorkKind::streaming, .bytes = 800};
  EXPECT_DOUBLE_EQ(compute_seconds(work, cluster), 800 / 10e9);  // in the smallest that holds all of it
  work.bytes = 1e5;
  EXPECT_DOUBLE_EQ(compute_seconds(work, cluster), 1e5 / 2e9);
  work.bytes = 1e7;
  EXPECT_DOUBLE_EQ(compute_seconds(work, cluster), 1e7 / 1e9);
  work.is_ordered = true;  // now it counts when what was touched
  work.bytes = 3000;
  add_cached(work, 1000, 500, cluster);
  add_cached(work, 1000, 5000, cluster);
  add_cached(work, 1000, 1e9, cluster);
  EXPECT_DOUBLE_EQ(compute_seconds(work, cluster), 1000 / 10e9 + 1000 / 2e9 + 1000 / 1e9);
}

/// Tensor units want whole lines; what is said of a split are the rows of a part.
TEST(ComputeSeconds, of_rows_that_are_no_whole_lines_are_longer) {
  Cluster cluster = cluster_called("v100-32g:1");
  cluster.efficiency = {{{1, 0}}};
  cluster.kernel_seconds = 0;
  cluster.rows = {.line_bytes = 16, .product = 0.5, .batched = 0.25};
  Work work{.kind = WorkKind::contraction, .flops = 125e12, .dtype = DType::f16};
  const auto seconds = [&](std::int64_t row_bytes, bool is_batched) {
    work.row_bytes = row_bytes, work.is_batched = is_batched;
    return compute_seconds(work, cluster);
  };
  EXPECT_DOUBLE_EQ(seconds(0, false), 1);  // nobody has said
  EXPECT_DOUBLE_EQ(seconds(2 * 104, true), 1);
  EXPECT_DOUBLE_EQ(seconds(2 * 108, true), 4);
  EXPECT_DOUBLE_EQ(seconds(2 * 108, false), 2);
  cluster.rows = no_lines;
  EXPECT_DOUBLE_EQ(seconds(2 * 108, true), 1);
}

TEST(RowBytes, are_those_of_the_last_dims_that_are_read) {
  const auto of = [](const char* text, std::vector<Shape> operands, std::int64_t parts_of_k = 1) {
    const Rule rule = bind_rule(text, "", operands, {});
    return row_bytes(rule, work_kind(rule), 2, [&](int loop) {
      return rule.loops[static_cast<std::size_t>(loop)].size / (loop == rule.loop("k") ? parts_of_k : 1);
    });
  };
  EXPECT_EQ(of("m k+, k+ n -> m n", {{10, 64}, {64, 24}}), 16);  // rows of 128 and of 48 bytes
  EXPECT_EQ(of("m k+, n k+ -> m n", {{10, 64}, {50257, 64}}), 128);
  EXPECT_EQ(of("m k+, n k+ -> m n", {{10, 64}, {50257, 64}}, 16), 8);
  EXPECT_EQ(of("b m k+, b k+ n -> b m n", {{2, 10, 108}, {2, 108, 64}}), 8);
  EXPECT_EQ(of("m n, m n -> m n", {{3, 5}, {3, 5}}), 0);                       // no product
  EXPECT_EQ(of("b+ s+ k, b+ s+ n -> k n", {{2, 10, 64}, {2, 10, 50257}}), 2);  // a weight's gradient
  EXPECT_EQ(of("b k+ h w, n k+ -> b n h w", {{2, 64, 7, 7}, {32, 64}}),
            0);  // libraries lay it out as they like
}

TEST(RowBytes, of_many_products_are_told_from_those_of_one) {
  const auto is = [](const char* text, std::vector<Shape> operands) {
    return is_batched(bind_rule(text, "", operands, {}));
  };
  EXPECT_TRUE(is("b m k+, b k+ n -> b m n", {{2, 10, 108}, {2, 108, 64}}));
  EXPECT_FALSE(is("b m k+, b k+ n -> b m n", {{1, 10, 108}, {1, 108, 64}}));
  EXPECT_FALSE(is("m k+, k+ n -> m n", {{10, 64}, {64, 24}}));
}

}  // namespace
}  // namespace shardwright
