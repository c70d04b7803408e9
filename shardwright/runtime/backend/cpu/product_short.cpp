// Products in bf16 and f16, whose sums are f32.
//
// bf16 by oneDNN's matmul where the machine multiplies it fast (GF/s, 1 thread of a Zen 5, f32 / bf16: 1024x784x512
// 190 / 440, 32x784x512 190 / 370). All else through f32: blocks of both operands are converted, multiplied by
// dnnl_sgemm, and converted back when all of k is summed; three blocks stay in a second-level cache.

#include <algorithm>
#include <memory>
#include <utility>

#include "shardwright/ops/block.h"
#include "shardwright/runtime/backend/cpu/instructions.h"
#include "shardwright/runtime/backend/cpu/product.h"
#include "shardwright/runtime/backend/cpu/product_primitive.h"

namespace shardwright::cpu {
namespace {

constexpr std::int64_t short_bytes = 2;

/// `extent` in as few equal parts of at most `most` as there can be.
std::int64_t part_of(std::int64_t extent, std::int64_t most) {
  constexpr std::int64_t tile = 16;
  const std::int64_t parts = (extent + most - 1) / most;
  return ((extent + parts - 1) / parts + tile - 1) / tile * tile;
}

/// A matrix as it is stored, or a block of it.
struct Stored {
  const std::byte* data;
  std::int64_t row;  // elements
  bool is_transposed;

  /// `rows` x `columns` elements of the matrix from (i, j) on as floats, stored in the same order.
  void to_floats(bool is_half, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns,
                 float* to) const {
    if (is_transposed) {
      std::swap(i, j);
      std::swap(rows, columns);
    }
    const std::byte* from = data + (i * row + j) * short_bytes;
    if (columns == row) {  // whole rows stand one behind the other
      columns *= rows;
      rows = 1;
    }
    for (std::int64_t r = 0; r < rows; ++r, from += row * short_bytes, to += columns)
      is_half ? ops::convert_elements<F16, float>(from, reinterpret_cast<std::byte*>(to), columns)
              : ops::convert_elements<BF16, float>(from, reinterpret_cast<std::byte*>(to), columns);
  }
};

class ThroughFloats {
 public:
  ThroughFloats(const Product& p, DType dtype, Workspace& workspace)
      : p_(p), is_half_(dtype == DType::f16), workspace_(&workspace) {
    workspace.reserve(static_cast<std::size_t>(height_ * depth_ + depth_ * width_ + height_ * width_) *
                      sizeof(float));
  }

  /// `n` rows of one matrix from row `first` on.
  void multiply(const std::byte* a, const std::byte* b, std::int64_t first, std::int64_t n,
                std::byte* y) const {
    const Stored left{a, p_.transpose_a ? p_.m : p_.k, p_.transpose_a},
        right{b, p_.transpose_b ? p_.k : p_.n, p_.transpose_b};
    const bool is_one_block = depth_ >= p_.k && width_ >= p_.n;  // which needs converting only once
    for (std::int64_t i = 0; i < n; i += height_)
      for (std::int64_t j = 0; j < p_.n; j += width_) {
        const Block block{first + i, j, std::min(height_, n - i), std::min(width_, p_.n - j)};
        for (std::int64_t l = 0; l < p_.k; l += depth_) add(left, right, block, l, i == 0 || !is_one_block);
        store(block, y + (i * p_.n + j) * short_bytes);
      }
  }

 private:
  struct Block {
    std::int64_t row, column, rows, columns;  // of y
  };

  float* sums() const { return reinterpret_cast<float*>(workspace_->data()); }

  /// Adds what k in [l, l + depth) contributes to the sums; l = 0 begins them.
  void add(const Stored& a, const Stored& b, const Block& block, std::int64_t l, bool converts_b) const {
    const std::int64_t k = std::min(depth_, p_.k - l);
    float* const left = sums() + height_ * width_;
    float* const right = left + height_ * depth_;
    a.to_floats(is_half_, block.row, l, block.rows, k, left);
    if (converts_b) b.to_floats(is_half_, l, block.column, k, block.columns, right);
    const auto status =
        dnnl_sgemm(p_.transpose_a ? 'T' : 'N', p_.transpose_b ? 'T' : 'N', block.rows, block.columns, k, 1.0F,
                   left, p_.transpose_a ? block.rows : k, right, p_.transpose_b ? k : block.columns,
                   l == 0 ? 0.0F : 1.0F, sums(), block.columns);
    require(status == dnnl_success, "dnnl_sgemm says {}", static_cast<int>(status));
  }

  void store(const Block& block, std::byte* y) const {
    const std::byte* from = reinterpret_cast<const std::byte*>(sums());
    const bool is_whole = block.columns == p_.n;
    const std::int64_t rows = is_whole ? 1 : block.rows;
    const std::int64_t columns = is_whole ? block.rows * block.columns : block.columns;
    for (std::int64_t r = 0; r < rows; ++r, y += p_.n * short_bytes, from += columns * 4)
      is_half_ ? ops::convert_elements<float, F16>(from, y, columns)
               : ops::convert_elements<float, BF16>(from, y, columns);
  }

  static constexpr std::int64_t most = 256;  // three blocks of 256 KiB

  Product p_;
  bool is_half_;
  Workspace* workspace_;
  std::int64_t height_ = part_of(p_.m, most), width_ = part_of(p_.n, most), depth_ = part_of(p_.k, most);
};

/// Rows of all matrices, one below the other.
Rows through_floats(const Product& p, DType dtype, Workspace& workspace) {
  const auto make = [p, by = ThroughFloats(p, dtype, workspace)](std::int64_t first, std::int64_t n,
                                                                 std::byte* y) {
    while (n > 0) {
      const std::int64_t q = first / p.m, i = first % p.m, rows = std::min(n, p.m - i);
      by.multiply(p.a + q * p.m * p.k * short_bytes, p.b + (p.shares_b ? 0 : q * p.k * p.n * short_bytes), i,
                  rows, y);
      first += rows;
      n -= rows;
      y += rows * p.n * short_bytes;
    }
  };
  return {.count = p.batch * p.m, .panel = p.panel_rows(short_bytes), .make = make};
}

/// One matrix, in panels or all of it. oneDNN packs b in every run: panels have enough rows to be worth that.
Rows one_bf16(const Product& p, Workspace& workspace) {
  constexpr std::int64_t fewest = 256;
  const std::int64_t panel = std::min(std::max(fewest, p.panel_rows(short_bytes)), p.m);
  const auto of_rows = [&](std::int64_t rows) -> std::shared_ptr<ProductPrimitive> {
    if (rows == 0) return nullptr;
    Product part = p;
    part.m = rows;
    part.stored_m = p.m;
    return std::make_shared<ProductPrimitive>(part, DType::bf16, workspace);
  };
  const std::int64_t row = p.transpose_a ? 1 : p.k;
  const auto make = [=, all = of_rows(p.m), some = of_rows(panel == p.m ? 0 : panel),
                     rest = of_rows(p.m % panel)](std::int64_t first, std::int64_t n, std::byte* y) {
    const auto& of = n == p.m ? all : n == panel ? some : rest;
    of->run(p.a + first * row * short_bytes, p.b, y);
  };
  return {.count = p.m, .panel = panel, .make = make};
}

}  // namespace

Rows product_short(const Product& p, DType dtype, Workspace& workspace) {
  if (dtype == DType::f16 || !multiplies_bf16()) return through_floats(p, dtype, workspace);
  return p.batch == 1 ? one_bf16(p, workspace) : batch_of_products(p, dtype, workspace);
}

Multiply multiply_short(const Product& p, DType dtype, Workspace& workspace) {
  if (dtype == DType::f16 || !multiplies_bf16())
    return [m = p.m, by = ThroughFloats(p, dtype, workspace)](const std::byte* a, const std::byte* b,
                                                              std::byte* y) { by.multiply(a, b, 0, m, y); };
  return [by = std::make_shared<ProductPrimitive>(p, dtype, workspace)](
             const std::byte* a, const std::byte* b, std::byte* y) { by->run(a, b, y); };
}

}  // namespace shardwright::cpu
