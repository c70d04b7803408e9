// Convolutions as products: what an output reads of the images is written out as a column.
//
//   columns[(i, kh, kw), (b, q, j)] = x[b, i, q s + kh d - p, j s + kw d - p]      one column per output pixel
//   forward           y  = w columns
//   data gradient     columns = w^T dy, each added to the input pixel it came from
//   weight gradient   dw = dy columns^T
//
// Rows (b, q) of output pixels are taken a strip at a time, so that the columns stay in the cache, however large the
// images or small their number. Groups come one after the other.

#include <algorithm>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/block.h"
#include "shardwright/runtime/backend/cpu/convolution.h"
#include "shardwright/runtime/backend/cpu/product.h"

namespace shardwright::cpu {
namespace {

/// Calls `use(column row, output row within the strip, first image row, kw)` for all taps and output rows [begin,
/// end); the image row is -1 where the tap lies outside the image.
template <class F>
void for_each_row(const ConvolutionGeometry& g, std::int64_t group, std::int64_t begin, std::int64_t end,
                  F use) {
  for (std::int64_t i = 0; i < g.in; ++i)
    for (std::int64_t kh = 0; kh < g.rows.kernel; ++kh)
      for (std::int64_t kw = 0; kw < g.columns.kernel; ++kw) {
        const std::int64_t tap = (i * g.rows.kernel + kh) * g.columns.kernel + kw;
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t p = g.rows.input(r % g.rows.out, kh);
          const std::int64_t plane = (r / g.rows.out * g.groups + group) * g.in + i;
          use(tap, r - begin, p < 0 || p >= g.rows.in ? -1 : plane * g.rows.in + p, kw);
        }
      }
}

/// columns = what the outputs in rows [begin, end) read of x.
template <class T>
void gather(const ConvolutionGeometry& g, std::int64_t group, std::int64_t begin, std::int64_t end,
            const T* x, T* columns) {
  const std::int64_t width = g.columns.out, n = (end - begin) * width;
  vectorized([=] {
    for_each_row(g, group, begin, end,
                 [=](std::int64_t tap, std::int64_t r, std::int64_t row, std::int64_t kw) {
                   T* const to = columns + tap * n + r * width;
                   const Range js = row < 0 ? Range{0, 0} : g.columns.outputs(kw, 0, g.columns.in);
                   std::fill_n(to, js.begin, T(0));
                   const T* const from = x + row * g.columns.in + g.columns.input(0, kw);
                   for (std::int64_t j = js.begin; j < js.end; ++j) to[j] = from[j * g.columns.stride];
                   std::fill(to + js.end, to + width, T(0));
                 });
  });
}

/// Adds columns to the input pixels that they came from.
template <class T>
void scatter(const ConvolutionGeometry& g, std::int64_t group, std::int64_t begin, std::int64_t end,
             const T* columns, T* x) {
  const std::int64_t width = g.columns.out, n = (end - begin) * width;
  vectorized([=] {
    for_each_row(g, group, begin, end,
                 [=](std::int64_t tap, std::int64_t r, std::int64_t row, std::int64_t kw) {
                   if (row < 0) return;
                   const T* const from = columns + tap * n + r * width;
                   const Range js = g.columns.outputs(kw, 0, g.columns.in);
                   T* const to = x + row * g.columns.in + g.columns.input(0, kw);
#pragma GCC ivdep
                   for (std::int64_t j = js.begin; j < js.end; ++j) to[j * g.columns.stride] += from[j];
                 });
  });
}

/// Calls `copy(row of the image tensor, row of the strip matrix)` for the `out` channels of rows [begin, end).
template <class F>
void for_each_output(const ConvolutionGeometry& g, std::int64_t group, std::int64_t begin, std::int64_t end,
                     F copy) {
  for (std::int64_t o = 0; o < g.out; ++o)
    for (std::int64_t r = begin; r < end; ++r)
      copy(((r / g.rows.out * g.groups + group) * g.out + o) * g.rows.out + r % g.rows.out,
           o * (end - begin) + r - begin);
}

void multiply(const Product& p, float* y, std::byte*) { multiply_f32(p, reinterpret_cast<std::byte*>(y)); }
void multiply(const Product& p, double* y, std::byte* packing) {
  multiply_f64(p, reinterpret_cast<std::byte*>(y), packing);
}

template <class T>
class ByColumns {
 public:
  ByColumns(const KernelCall& call, ConvolutionKind kind)
      : g_(convolution_geometry(call, kind)), kind_(kind), result_size_(call.results[0].size()) {
    const std::int64_t row = g_.taps() * g_.columns.out * static_cast<std::int64_t>(sizeof(T));
    strip_ = std::clamp<std::int64_t>(strip_bytes / std::max<std::int64_t>(row, 1), 1, g_.row_count());
  }

  /// Of memory that a run needs.
  std::size_t bytes() const {
    const std::int64_t n = strip_ * g_.columns.out;
    const std::int64_t elements = (g_.taps() + g_.out) * n + g_.out * g_.taps();
    return static_cast<std::size_t>(packing()) + static_cast<std::size_t>(elements) * sizeof(T);
  }

  /// `first` and `second` are the operands.
  void run(const T* first, const T* second, T* result, std::byte* memory) const {
    if (kind_ != ConvolutionKind::forward) std::fill_n(result, result_size_, T(0));
    for (std::int64_t group = 0; group < g_.groups; ++group)
      for (std::int64_t begin = 0; begin < g_.row_count(); begin += strip_)
        run({group, begin, std::min(begin + strip_, g_.row_count())}, first, second, result, memory);
  }

 private:
  static constexpr std::int64_t strip_bytes = std::int64_t{1} << 21;

  struct Part {
    std::int64_t group, begin, end;  // rows
  };

  static std::int64_t packing() { return sizeof(T) == sizeof(double) ? packing_bytes_f64 : 0; }

  void run(const Part& part, const T* first, const T* second, T* result, std::byte* memory) const {
    const auto [group, begin, end] = part;
    const std::int64_t n = (end - begin) * g_.columns.out, k = g_.taps(), width = g_.columns.out;
    T* const columns = reinterpret_cast<T*>(memory + packing());  // [k, n]
    T* const strip = columns + k * n;                             // [out, n]: y or dy
    const std::int64_t weight = group * g_.out * k;
    const auto product = [](std::int64_t m, std::int64_t n2, std::int64_t k2, const T* a, const T* b) {
      return Product{.m = m,
                     .n = n2,
                     .k = k2,
                     .a = reinterpret_cast<const std::byte*>(a),
                     .b = reinterpret_cast<const std::byte*>(b)};
    };
    if (kind_ == ConvolutionKind::forward) {
      gather(g_, group, begin, end, first, columns);
      multiply(product(g_.out, n, k, second + weight, columns), strip, memory);
      for_each_output(g_, group, begin, end, [=, y = result](std::int64_t image, std::int64_t row) {
        std::copy_n(strip + row * width, width, y + image * width);
      });
      return;
    }
    const T* const dy = kind_ == ConvolutionKind::data_gradient ? first : second;
    for_each_output(g_, group, begin, end, [=](std::int64_t image, std::int64_t row) {
      std::copy_n(dy + image * width, width, strip + row * width);
    });
    if (kind_ == ConvolutionKind::data_gradient) {
      Product p = product(k, n, g_.out, second + weight, strip);
      p.transpose_a = true;
      multiply(p, columns, memory);
      scatter(g_, group, begin, end, columns, result);
      return;
    }
    gather(g_, group, begin, end, first, columns);
    T* const share = strip + g_.out * n;  // [out, k]
    Product p = product(g_.out, k, n, strip, columns);
    p.transpose_b = true;
    multiply(p, share, memory);
    T* const dw = result + weight;
    for (std::int64_t i = 0; i < g_.out * k; ++i) dw[i] += share[i];
  }

  ConvolutionGeometry g_;
  ConvolutionKind kind_;
  std::int64_t result_size_;
  std::int64_t strip_ = 0;  // rows at a time
};

template <class T>
Rows rows_by_columns(const KernelCall& call, ConvolutionKind kind, Workspace& workspace) {
  const ByColumns<T> by(call, kind);
  workspace.reserve(by.bytes());
  return all_at_once([by, &workspace, a = call.operands[0].as<T>().data(),
                      b = call.operands[1].as<T>().data()](std::byte* y) {
    by.run(a, b, reinterpret_cast<T*>(y), workspace.data());
  });
}

/// On copies in f32, which lie in the workspace in front of the columns.
template <class T>
Rows rows_through_floats(const KernelCall& call, ConvolutionKind kind, Workspace& workspace) {
  const ByColumns<float> by(call, kind);
  const std::int64_t a = call.operands[0].size(), b = call.operands[1].size(), y = call.results[0].size();
  workspace.reserve(static_cast<std::size_t>(a + b + y) * sizeof(float) + by.bytes());
  return all_at_once(
      [=, &workspace, from_a = call.operands[0].data, from_b = call.operands[1].data](std::byte* made) {
        auto* const first = reinterpret_cast<float*>(workspace.data());
        float *const second = first + a, *const result = second + b;
        ops::convert_elements<T, float>(from_a, reinterpret_cast<std::byte*>(first), a);
        ops::convert_elements<T, float>(from_b, reinterpret_cast<std::byte*>(second), b);
        by.run(first, second, result, reinterpret_cast<std::byte*>(result + y));
        ops::convert_elements<float, T>(reinterpret_cast<std::byte*>(result), made, y);
      });
}

}  // namespace

Rows convolution_by_columns(const FusedCall& fused, Workspace& workspace) {
  constexpr std::int64_t fewest = 16;  // multiplications per element of a column
  const auto kind = convolution_kind(fused.op.name);
  if (!kind) return {};
  const KernelCall& call = fused.call;
  const ConvolutionGeometry g = convolution_geometry(call, *kind);
  if (g.is_empty() || g.in * g.out < fewest) return {};
  switch (call.results[0].dtype) {
    case DType::f32: return rows_by_columns<float>(call, *kind, workspace);
    case DType::f64: return rows_by_columns<double>(call, *kind, workspace);
    case DType::f16: return rows_through_floats<F16>(call, *kind, workspace);
    case DType::bf16: return rows_through_floats<BF16>(call, *kind, workspace);
    default: return {};
  }
}

}  // namespace shardwright::cpu
