// Batch norm on blocks of channels. The formulas are those of ops/batch_norm.cpp.
//
// Sums over pixels are kept in double: those of x and x^2 always, since the variance is a difference; those of
// products with dy for runs of pixels, within which floats lose nothing that matters.

#include <array>
#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/batch_norm.h"
#include "shardwright/ops/types.h"
#include "shardwright/runtime/backend/cpu/blocked.h"

namespace shardwright::cpu {
namespace {

template <class T>
const T* elements(const TensorView& t) {
  return reinterpret_cast<const T*>(t.data);
}
template <class T>
T* written(const TensorView& t) {
  return reinterpret_cast<T*>(t.data);
}

/// Mean and 1 / sqrt(variance + epsilon) of each channel, from moments in f64.
struct Statistics {
  const double* moments;
  std::int64_t channels;
  double epsilon;

  Statistics(const KernelCall& call, std::size_t operand)
      : moments(reinterpret_cast<const double*>(call.operands[operand].data)),
        channels(call.operands[operand].shape[1]),
        epsilon(call.attributes.number("epsilon", ops::batch_norm_epsilon)) {}
  double mean(std::int64_t c) const { return moments[c]; }
  double scale(std::int64_t c) const {
    const double variance = moments[channels + c] - mean(c) * mean(c);
    return 1 / std::sqrt(std::max(variance, 0.0) + epsilon);
  }
};

template <int lanes, class T>
void moments(const Blocks& n, double count, const T* x, double* y) {
  vectorized([=] {
    for (std::int64_t k = 0; k < n.blocks; ++k) {
      double sum[lanes] = {}, squares[lanes] = {};
      for (std::int64_t b = 0; b < n.batch; ++b) {
        const T* at = x + (b * n.blocks + k) * n.pixels() * lanes;
        for (std::int64_t p = 0; p < n.pixels(); ++p, at += lanes)
#pragma GCC unroll 1
          for (int l = 0; l < lanes; ++l) {
            const auto v = static_cast<double>(static_cast<float>(at[l]));
            sum[l] += v;
            squares[l] += v * v;
          }
      }
      for (int l = 0; l < lanes; ++l) {
        y[k * lanes + l] = sum[l] / count;
        y[(n.blocks + k) * lanes + l] = squares[l] / count;
      }
    }
  });
}

/// y = (x - mean) scale + shift by rows of pixels.
template <int lanes, class T>
class Normalize {
 public:
  explicit Normalize(const KernelCall& call)
      : n_(call.results[0].shape, lanes),
        of_(call, 3),
        x_(elements<T>(call.operands[0])),
        gamma_(call.operands[1]),
        beta_(call.operands[2]),
        table_(static_cast<std::size_t>(3 * of_.channels)) {}

  /// Rows from `first` on; row 0 begins a run.
  void operator()(std::int64_t first, std::int64_t count, T* y) {
    if (first == 0) fill_table();
    while (count > 0) {
      const std::int64_t plane = first / n_.rows, rows = std::min(count, n_.rows - first % n_.rows);
      normalize(plane % n_.blocks, x_ + first * n_.columns * lanes, rows * n_.columns, y);
      y += rows * n_.columns * lanes;
      first += rows;
      count -= rows;
    }
  }

 private:
  void fill_table() {
    vectorized([of = of_, gamma = gamma_, beta = beta_, table = table_.data()] {
      for (std::int64_t c = 0; c < of.channels; ++c) {
        table[c] = static_cast<float>(of.mean(c));
        table[of.channels + c] = static_cast<float>(of.scale(c)) * static_cast<float>(gamma[c]);
        table[2 * of.channels + c] = static_cast<float>(beta[c]);
      }
    });
  }

  void normalize(std::int64_t block, const T* x, std::int64_t pixels, T* y) const {
    vectorized([=, channels = of_.channels, table = table_.data() + block * lanes] {
      for (std::int64_t p = 0; p < pixels; ++p)
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l)
          y[p * lanes + l] = (static_cast<float>(x[p * lanes + l]) - table[l]) * table[channels + l] +
                             table[2 * channels + l];
    });
  }

  Blocks n_;
  Statistics of_;
  const T* x_;
  ops::Doubles gamma_, beta_;
  std::vector<float> table_;  // mean, scale, shift by channel
};

template <int lanes, class T>
void weights_gradient(const Blocks& n, const Statistics& of, const T* dy, const T* x, float* dgamma,
                      float* dbeta) {
  constexpr std::int64_t run = 64;  // pixels summed in float
  vectorized([=] {
    for (std::int64_t k = 0; k < n.blocks; ++k) {
      float mean[lanes];
      for (int l = 0; l < lanes; ++l) mean[l] = static_cast<float>(of.mean(k * lanes + l));
      double products[lanes] = {}, sums[lanes] = {};
      for (std::int64_t b = 0; b < n.batch; ++b)
        for (std::int64_t start = 0; start < n.pixels(); start += run) {
          const std::int64_t at = ((b * n.blocks + k) * n.pixels() + start) * lanes;
          const std::int64_t pixels = std::min(run, n.pixels() - start);
          float product[lanes] = {}, sum[lanes] = {};
          for (std::int64_t p = 0; p < pixels; ++p)
            for (int l = 0; l < lanes; ++l) {
              const float d = dy[at + p * lanes + l];
              product[l] += d * (static_cast<float>(x[at + p * lanes + l]) - mean[l]);
              sum[l] += d;
            }
          for (int l = 0; l < lanes; ++l) {
            products[l] += static_cast<double>(product[l]);
            sums[l] += static_cast<double>(sum[l]);
          }
        }
      for (int l = 0; l < lanes; ++l) {
        dgamma[k * lanes + l] = static_cast<float>(products[l] * of.scale(k * lanes + l));
        dbeta[k * lanes + l] = static_cast<float>(sums[l]);
      }
    }
  });
}

template <class T>
struct GradientOperands {
  const T *dy, *x;
  ops::Doubles gamma, dgamma, dbeta;
};

template <int lanes, class T>
void gradient(const Blocks& n, const Statistics& of, double count, const GradientOperands<T>& in, T* dx) {
  vectorized([=] {
    for (std::int64_t plane = 0; plane < n.planes(); ++plane) {
      float mean[lanes], shift[lanes], slope[lanes], scale[lanes];
      for (int l = 0; l < lanes; ++l) {
        const std::int64_t c = plane % n.blocks * lanes + l;
        const double s = of.scale(c);
        mean[l] = static_cast<float>(of.mean(c));
        shift[l] = static_cast<float>(in.dbeta[c] / count);
        slope[l] = static_cast<float>(in.dgamma[c] * s / count);
        scale[l] = static_cast<float>(in.gamma[c] * s);
      }
      const std::int64_t at = plane * n.pixels() * lanes;
      for (std::int64_t p = 0; p < n.pixels(); ++p)
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) {
          const std::int64_t i = at + p * lanes + l;
          dx[i] =
              (static_cast<float>(in.dy[i]) - shift[l] - (static_cast<float>(in.x[i]) - mean[l]) * slope[l]) *
              scale[l];
        }
    }
  });
}

/// Which operands and results are images; the others there are once per channel.
struct Images {
  std::vector<bool> operands, results;
  std::size_t moments;  // the operand (or result) that must be f64
};

std::optional<Images> images_of(std::string_view op) {
  if (op == "batch_moments") return Images{{true}, {false}, 0};
  if (op == "batch_norm") return Images{{true, false, false, false}, {true}, 3};
  if (op == "batch_norm_weights_grad") return Images{{true, true, false}, {false, false}, 2};
  if (op == "batch_norm_grad") return Images{{true, true, false, false, false, false}, {true}, 3};
  return {};
}

}  // namespace

std::optional<Formats> normalization_formats(const OpDef& op, const KernelCall& call) {
  const auto images = images_of(op.name);
  if (!images) return {};
  const bool has_moments = images->moments > 0;
  if (!is_for_blocks(call.operands[0].dtype) || call.operands[0].size() == 0 ||
      (has_moments && call.operands[images->moments].dtype != DType::f64))
    return Formats{};
  Formats out{.common = image_formats()};
  const auto format = [](bool is_image) { return is_image ? std::optional<Format>() : Format{}; };
  for (bool i : images->operands) out.operands.push_back(format(i));
  for (bool i : images->results) out.results.push_back(format(i));
  return out;
}

Rows blocked_batch_norm_rows(const FusedCall& fused) {
  const int lanes_wanted = lanes_of(fused.operand_format(0));
  if (fused.op.name != "batch_norm" || lanes_wanted == 0) return {};
  const KernelCall& call = fused.call;
  return with_images(lanes_wanted, call.results[0].dtype, [&]<int lanes, class T>() -> Rows {
    constexpr std::int64_t panel = 8192;  // elements: a first-level cache, with what the chain behind reads
    const Blocks n(call.results[0].shape, lanes);
    const auto make = [normalize = Normalize<lanes, T>(call)](std::int64_t first, std::int64_t count,
                                                              std::byte* y) mutable {
      normalize(first, count, reinterpret_cast<T*>(y));
    };
    return {.count = n.planes() * n.rows,
            .panel = std::max<std::int64_t>(1, panel / (n.columns * lanes)),
            .make = make};
  });
}

PreparedKernel blocked_normalization(const FusedCall& fused) {
  const int lanes_wanted = lanes_of(fused.operand_format(0));
  if (!images_of(fused.op.name) || lanes_wanted == 0) return {};
  const KernelCall& call = fused.call;
  const Blocks n(call.operands[0].shape, lanes_wanted);
  return with_images(lanes_wanted, call.operands[0].dtype, [&]<int lanes, class T>() -> PreparedKernel {
    const T* const a = elements<T>(call.operands[0]);
    if (fused.op.name == "batch_moments")
      return PreparedKernel([=, count = ops::batch_norm_count(call), x = a,
                             y = written<double>(call.results[0])] { moments<lanes>(n, count, x, y); });
    if (fused.op.name == "batch_norm_weights_grad")
      return PreparedKernel(
          [=, of = Statistics(call, 2), x = elements<T>(call.operands[1]),
           dgamma = written<float>(call.results[0]),
           dbeta = written<float>(call.results[1])] { weights_gradient<lanes>(n, of, a, x, dgamma, dbeta); });
    if (fused.op.name == "batch_norm_grad") {
      const GradientOperands<T> in{a, elements<T>(call.operands[1]), ops::Doubles(call.operands[2]),
                                   ops::Doubles(call.operands[4]), ops::Doubles(call.operands[5])};
      return PreparedKernel([=, of = Statistics(call, 3), count = ops::batch_norm_count(call),
                             dx = written<T>(call.results[0])] { gradient<lanes>(n, of, count, in, dx); });
    }
    return {};
  });
}

}  // namespace shardwright::cpu
