// Products in f64, for which oneDNN has nothing: packed panels and a register tile.
//
// Blocks of b (depth x width) and strips of a (depth x rows) are packed so that the innermost loop reads both
// in order; edges are padded with zeros. An element's sum over k has one order, whatever m and n are, and the
// tile never contracts to fused multiply-adds: results do not depend on the split of m and n nor on the CPU.

#include <algorithm>
#include <memory>

#include "shardwright/runtime/backend/cpu/product.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {
namespace {

constexpr std::int64_t rows = 4, columns = 8;     // of a register tile
constexpr std::int64_t depth = 256, width = 512;  // of a packed block of b: 1 MiB

using Tile = double[rows][columns];
using MultiplyTile = void (*)(const double* a, const double* b, std::int64_t k, Tile& tile);

/// tile = a b for packed a: [k, rows] and b: [k, columns].
[[gnu::always_inline]] inline void multiply(const double* a, const double* b, std::int64_t k, Tile& tile) {
  using Lanes [[gnu::vector_size(columns * sizeof(double))]] = double;
  Lanes sum[rows] = {};
  for (std::int64_t l = 0; l < k; ++l) {
    const Lanes row = *reinterpret_cast<const Lanes*>(b + l * columns);
    for (std::int64_t i = 0; i < rows; ++i) sum[i] += a[l * rows + i] * row;
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) tile[i][j] = sum[i][j];
}

void multiply_any(const double* a, const double* b, std::int64_t k, Tile& t) { multiply(a, b, k, t); }
[[gnu::target("avx2")]] void multiply_avx2(const double* a, const double* b, std::int64_t k, Tile& t) {
  multiply(a, b, k, t);
}
[[gnu::target("avx512f")]] void multiply_avx512(const double* a, const double* b, std::int64_t k, Tile& t) {
  multiply(a, b, k, t);
}

MultiplyTile fastest() {
  if (__builtin_cpu_supports("avx512f")) return multiply_avx512;
  return __builtin_cpu_supports("avx2") ? multiply_avx2 : multiply_any;
}

struct Matrix {
  const double* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
  const double* at(std::int64_t i, std::int64_t j) const { return data + i * row_stride + j * column_stride; }
};

/// out[l, j] = m(l, j) for j < n, 0 for n <= j < padded.
void pack(const Matrix& m, std::int64_t k, std::int64_t n, std::int64_t padded, double* out) {
  for (std::int64_t l = 0; l < k; ++l, out += padded) {
    for (std::int64_t j = 0; j < n; ++j) out[j] = *m.at(l, j);
    for (std::int64_t j = n; j < padded; ++j) out[j] = 0;
  }
}

class Blocked {
 public:
  /// Packs in the `packing_bytes_f64` bytes at `packing`.
  Blocked(const Product& p, std::byte* packing)
      : p_(p),
        panels_(reinterpret_cast<double*>(packing)),
        strip_(panels_ + depth * width),
        tile_(fastest()) {}

  /// Rows [first, first + n) of all matrices, one below the other.
  void run(std::int64_t first, std::int64_t n, double* y) const {
    const auto* a = reinterpret_cast<const double*>(p_.a);
    const auto* b = reinterpret_cast<const double*>(p_.b);
    while (n > 0) {
      const std::int64_t q = first / p_.m, i = first % p_.m, height = std::min(n, p_.m - i);
      Matrix left{a + q * p_.m * p_.k, p_.transpose_a ? 1 : p_.k, p_.transpose_a ? p_.m : 1};
      left.data = left.at(i, 0);
      const Matrix right{b + (p_.shares_b ? 0 : q * p_.k * p_.n), p_.transpose_b ? 1 : p_.n,
                         p_.transpose_b ? p_.k : 1};
      for (std::int64_t j = 0; j < p_.n; j += width)
        for (std::int64_t l = 0; l < p_.k; l += depth) block(left, right, height, j, l, y);
      first += height;
      n -= height;
      y += height * p_.n;
    }
  }

 private:
  /// Adds what k in [l, l + depth) contributes to columns [j, j + width) of y: [m, n]; the first l stores.
  void block(const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t j, std::int64_t l,
             double* y) const {
    const std::int64_t k = std::min(depth, p_.k - l), n = std::min(width, p_.n - j);
    for (std::int64_t c = 0; c < n; c += columns)
      pack({b.at(l, j + c), b.row_stride, b.column_stride}, k, std::min(columns, n - c), columns,
           panels_ + c * depth);
    for (std::int64_t i = 0; i < m; i += rows) {
      const std::int64_t height = std::min(rows, m - i);
      pack({a.at(i, l), a.column_stride, a.row_stride}, k, height, rows, strip_);
      for (std::int64_t c = 0; c < n; c += columns) {
        Tile tile;
        tile_(strip_, panels_ + c * depth, k, tile);
        store(tile, height, std::min(columns, n - c), l > 0, y + i * p_.n + j + c);
      }
    }
  }

  void store(const Tile& tile, std::int64_t height, std::int64_t n, bool adds, double* y) const {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < n; ++j) y[i * p_.n + j] = adds ? y[i * p_.n + j] + tile[i][j] : tile[i][j];
  }

  Product p_;
  double* panels_;  // packed b: [strip of columns][k, columns]
  double* strip_;   // packed a: [k, rows]
  MultiplyTile tile_;
};

}  // namespace

const std::int64_t packing_bytes_f64 = depth * (width + rows) * static_cast<std::int64_t>(sizeof(double));

void multiply_f64(const Product& p, std::byte* y, std::byte* packing) {
  Blocked(p, packing).run(0, p.m, reinterpret_cast<double*>(y));
}

Rows product_f64(const Product& p) {
  const auto packing = std::make_shared<Scratch>(static_cast<std::size_t>(packing_bytes_f64));
  const auto make = [p, packing](std::int64_t first, std::int64_t n, std::byte* y) {
    Blocked(p, packing->data()).run(first, n, reinterpret_cast<double*>(y));
  };
  return {.count = p.batch * p.m, .panel = p.panel_rows(sizeof(double)), .make = make};
}

}  // namespace shardwright::cpu
