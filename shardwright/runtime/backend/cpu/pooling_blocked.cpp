// Pooling on blocks of channels: each lane finds its own largest. What counts is told in ops/pool2d.cpp.

#include <limits>

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/sliding.h"
#include "shardwright/runtime/backend/cpu/blocked.h"

namespace shardwright::cpu {
namespace {

/// Both spatial dims.
struct Windows {
  ops::Local rows, columns;

  /// Calls `use(tap, input row, input column)` for each input that output (q, j) reads.
  template <class F>
  void for_each(std::int64_t q, std::int64_t j, F use) const {
    for (std::int64_t kh = 0; kh < rows.kernel; ++kh) {
      const std::int64_t p = rows.input(q, kh);
      if (p < 0 || p >= rows.in) continue;
      for (std::int64_t kw = 0; kw < columns.kernel; ++kw) {
        const std::int64_t c = columns.input(j, kw);
        if (c >= 0 && c < columns.in) use(static_cast<std::int32_t>(kh * columns.kernel + kw), p, c);
      }
    }
  }
};

Windows with_windows_of_inputs(const KernelCall& call, const Blocks& x) {
  const auto s = ops::window_of(call.attributes);
  return {ops::with_window_of_inputs(s[0], call, "h", x.rows),
          ops::with_window_of_inputs(s[1], call, "w", x.columns)};
}

template <int lanes>
void max_pool(const Windows& w, const Blocks& n, const Blocks& in, const float* x, float* y) {
  vectorized([=] {
    float* to = y;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, to += lanes) {
          float most[lanes];
          for (float& m : most) m = -std::numeric_limits<float>::infinity();
          const float* const image = x + plane * in.pixels() * lanes;
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            const float* const from = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l)
              most[l] = static_cast<int>(from[l] > most[l]) | static_cast<int>(from[l] != from[l]) ? from[l]
                                                                                                   : most[l];
          });
#pragma GCC unroll 1
          for (int l = 0; l < lanes; ++l) to[l] = most[l];
        }
  });
}

/// Where the inputs of a gradient's result lie among those that are read.
struct Inside {
  std::int64_t row, column;
};

/// dx gets each dy where the first of the largest x was.
template <int lanes>
void max_pool_gradient(const Windows& w, const Inside& inside, const Blocks& n, const Blocks& in,
                       const Blocks& out, const float* dy, const float* x, float* dx) {
  vectorized([=] {
    std::fill_n(dx, out.planes() * out.pixels() * lanes, 0.0F);
    const float* from = dy;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, from += lanes) {
          const float* const image = x + plane * in.pixels() * lanes;
          float most[lanes] = {};
          std::int32_t where[lanes];  // which tap
          for (std::int32_t& tap : where) tap = -1;
          w.for_each(q, j, [&](std::int32_t tap, std::int64_t p, std::int64_t c) {
            const float* const v = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) {
              const bool is_more = (static_cast<int>(v[l] > most[l]) | static_cast<int>(v[l] != v[l]) |
                                    static_cast<int>(where[l] < 0)) != 0;
              most[l] = is_more ? v[l] : most[l];
              where[l] = is_more ? tap : where[l];
            }
          });
          w.for_each(q, j, [&](std::int32_t tap, std::int64_t p, std::int64_t c) {
            const std::int64_t row = p - inside.row, column = c - inside.column;
            if (row < 0 || row >= out.rows || column < 0 || column >= out.columns) return;
            float* const to = dx + ((plane * out.rows + row) * out.columns + column) * lanes;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) to[l] += where[l] == tap ? from[l] : 0.0F;
          });
        }
  });
}

template <int lanes>
void avg_pool(const Windows& w, bool pads, const Blocks& n, const Blocks& in, const float* x, float* y) {
  vectorized([=] {
    float* to = y;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, to += lanes) {
          float sum[lanes] = {};
          std::int64_t count = 0;
          const float* const image = x + plane * in.pixels() * lanes;
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            const float* const from = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) sum[l] += from[l];
            ++count;
          });
          const auto size = static_cast<float>(pads ? w.rows.kernel * w.columns.kernel : count);
#pragma GCC unroll 1
          for (int l = 0; l < lanes; ++l) to[l] = sum[l] / size;
        }
  });
}

/// How many inputs an output counts, by its local row and by its local column.
struct Counts {
  std::vector<std::int64_t> rows, columns;

  Counts(const KernelCall& call, const Blocks& n) {
    const auto s = ops::window_of(call.attributes);
    const auto size = ops::numbers<2>(call.attributes, "size", 1, 1);
    const bool pads = call.attributes.flag("count_pads", true);
    const std::int64_t q = ops::first_output(s[0], call, "h"), j = ops::first_output(s[1], call, "w");
    for (std::int64_t i = 0; i < n.rows; ++i) rows.push_back(ops::counted(s[0], q + i, size[0], pads));
    for (std::int64_t i = 0; i < n.columns; ++i) columns.push_back(ops::counted(s[1], j + i, size[1], pads));
  }
};

template <int lanes>
void avg_pool_gradient(const Windows& w, const Counts& counts, const Blocks& n, const Blocks& out,
                       const float* dy, float* dx) {
  vectorized([=, rows = counts.rows.data(), columns = counts.columns.data()] {
    std::fill_n(dx, out.planes() * out.pixels() * lanes, 0.0F);
    const float* from = dy;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, from += lanes) {
          float share[lanes];
#pragma GCC unroll 1
          for (int l = 0; l < lanes; ++l) share[l] = from[l] / static_cast<float>(rows[q] * columns[j]);
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            float* const to = dx + ((plane * out.rows + p) * out.columns + c) * lanes;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) to[l] += share[l];
          });
        }
  });
}

bool is_pooling(std::string_view op) {
  return op == "max_pool2d" || op == "max_pool2d_grad" || op == "avg_pool2d" || op == "avg_pool2d_grad";
}

template <int lanes>
PreparedKernel prepared(std::string_view op, const KernelCall& call) {
  const Blocks n(op.ends_with("_grad") ? call.operands[0].shape : call.results[0].shape, lanes);
  const Blocks out(call.results[0].shape, lanes), in(call.operands.back().shape, lanes);
  const auto* const first = reinterpret_cast<const float*>(call.operands[0].data);
  auto* const result = reinterpret_cast<float*>(call.results[0].data);
  const auto s = ops::window_of(call.attributes);
  if (op == "max_pool2d")
    return PreparedKernel(
        [=, w = with_windows_of_inputs(call, in)] { max_pool<lanes>(w, n, in, first, result); });
  if (op == "avg_pool2d")
    return PreparedKernel(
        [=, w = with_windows_of_inputs(call, in), pads = call.attributes.flag("count_pads", true)] {
          avg_pool<lanes>(w, pads, n, in, first, result);
        });
  if (op == "avg_pool2d_grad") {
    const Windows w{ops::with_window_of_outputs(s[0], call, "h", n.rows),
                    ops::with_window_of_outputs(s[1], call, "w", n.columns)};
    return PreparedKernel(
        [=, counts = Counts(call, n)] { avg_pool_gradient<lanes>(w, counts, n, out, first, result); });
  }
  const auto rows = ops::touched(s[0], call, "h", in.rows, n.rows);
  const auto columns = ops::touched(s[1], call, "w", in.columns, n.columns);
  return PreparedKernel([=, x = reinterpret_cast<const float*>(call.operands[1].data)] {
    max_pool_gradient<lanes>({rows.reads, columns.reads}, {rows.inside, columns.inside}, n, in, out, first, x,
                             result);
  });
}

}  // namespace

std::optional<Formats> pooling_formats(const OpDef& op, const KernelCall& call) {
  if (!is_pooling(op.name)) return {};
  if (call.results[0].dtype != DType::f32) return Formats{};
  return Formats{.operands = std::vector<std::optional<Format>>(call.operands.size()),
                 .results = std::vector<std::optional<Format>>(1),
                 .common = image_formats()};
}

PreparedKernel blocked_pooling(const FusedCall& fused) {
  const int lanes = lanes_of(fused.operand_format(0));
  if (!is_pooling(fused.op.name) || lanes == 0) return {};
  return with_lanes(lanes, [&]<int n>() { return prepared<n>(fused.op.name, fused.call); });
}

}  // namespace shardwright::cpu
