// Pooling on blocks of channels: each lane finds its own largest. What counts is told in ops/pool2d.cpp. Gradients that
// overlap are added in float: in place, or a plane at a time for the 16-bit types.

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

template <int lanes, class T>
void max_pool(const Windows& w, const Blocks& n, const Blocks& in, const T* x, T* y) {
  vectorized([=] {
    T* to = y;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, to += lanes) {
          float most[lanes];
          for (float& m : most) m = -std::numeric_limits<float>::infinity();
          const T* const image = x + plane * in.pixels() * lanes;
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            const T* const from = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) {
              const float v = from[l];
              most[l] = static_cast<int>(v > most[l]) | static_cast<int>(v != v) ? v : most[l];
            }
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

/// Where the gradients of plane `plane`, `size` elements, are added up: in their place, or at `sums`.
template <class T>
float* sums_of(std::int64_t plane, std::int64_t size, T* dx, std::byte* sums) {
  float* out = reinterpret_cast<float*>(sums);
  if constexpr (std::is_same_v<T, float>) out = dx + plane * size;
  std::fill_n(out, size, 0.0F);
  return out;
}

/// Puts sums that are not in their place there.
template <class T>
void store_sums(const float* sums, std::int64_t plane, std::int64_t size, T* dx) {
  if constexpr (!std::is_same_v<T, float>)
    for (std::int64_t i = 0; i < size; ++i) dx[plane * size + i] = sums[i];
}

/// Bytes of the sums of a plane that are not in their place.
std::size_t bytes_of_sums(DType dtype, const Blocks& out, int lanes) {
  return dtype == DType::f32 ? 0 : static_cast<std::size_t>(out.pixels() * lanes) * sizeof(float);
}

/// dx gets each dy where the first of the largest x was.
template <int lanes, class T>
void max_pool_gradient(const Windows& w, const Inside& inside, const Blocks& n, const Blocks& in,
                       const Blocks& out, const T* dy, const T* x, T* dx, std::byte* sums) {
  vectorized([=] {
    const std::int64_t size = out.pixels() * lanes;
    const T* from = dy;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane) {
      float* const sum = sums_of(plane, size, dx, sums);
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, from += lanes) {
          const T* const image = x + plane * in.pixels() * lanes;
          float most[lanes] = {};
          std::int32_t where[lanes];  // which tap
          for (std::int32_t& tap : where) tap = -1;
          w.for_each(q, j, [&](std::int32_t tap, std::int64_t p, std::int64_t c) {
            const T* const at = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) {
              const float v = at[l];
              const bool is_more = (static_cast<int>(v > most[l]) | static_cast<int>(v != v) |
                                    static_cast<int>(where[l] < 0)) != 0;
              most[l] = is_more ? v : most[l];
              where[l] = is_more ? tap : where[l];
            }
          });
          w.for_each(q, j, [&](std::int32_t tap, std::int64_t p, std::int64_t c) {
            const std::int64_t row = p - inside.row, column = c - inside.column;
            if (row < 0 || row >= out.rows || column < 0 || column >= out.columns) return;
            float* const to = sum + (row * out.columns + column) * lanes;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) to[l] += where[l] == tap ? static_cast<float>(from[l]) : 0.0F;
          });
        }
      store_sums(sum, plane, size, dx);
    }
  });
}

template <int lanes, class T>
void avg_pool(const Windows& w, bool pads, const Blocks& n, const Blocks& in, const T* x, T* y) {
  vectorized([=] {
    T* to = y;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane)
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, to += lanes) {
          float sum[lanes] = {};
          std::int64_t count = 0;
          const T* const image = x + plane * in.pixels() * lanes;
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            const T* const from = image + (p * in.columns + c) * lanes;
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) sum[l] += static_cast<float>(from[l]);
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

template <int lanes, class T>
void avg_pool_gradient(const Windows& w, const Counts& counts, const Blocks& n, const Blocks& out,
                       const T* dy, T* dx, std::byte* sums) {
  vectorized([=, rows = counts.rows.data(), columns = counts.columns.data()] {
    const std::int64_t size = out.pixels() * lanes;
    const T* from = dy;
    for (std::int64_t plane = 0; plane < n.planes(); ++plane) {
      float* const sum = sums_of(plane, size, dx, sums);
      for (std::int64_t q = 0; q < n.rows; ++q)
        for (std::int64_t j = 0; j < n.columns; ++j, from += lanes) {
          float share[lanes];
#pragma GCC unroll 1
          for (int l = 0; l < lanes; ++l)
            share[l] = static_cast<float>(from[l]) / static_cast<float>(rows[q] * columns[j]);
          w.for_each(q, j, [&](std::int32_t, std::int64_t p, std::int64_t c) {
            float* const to = sum + (p * out.columns + c) * lanes;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int l = 0; l < lanes; ++l) to[l] += share[l];
          });
        }
      store_sums(sum, plane, size, dx);
    }
  });
}

bool is_pooling(std::string_view op) {
  return op == "max_pool2d" || op == "max_pool2d_grad" || op == "avg_pool2d" || op == "avg_pool2d_grad";
}

template <int lanes, class T>
PreparedKernel prepared(std::string_view op, const KernelCall& call, Workspace& workspace) {
  const Blocks n(op.ends_with("_grad") ? call.operands[0].shape : call.results[0].shape, lanes);
  const Blocks out(call.results[0].shape, lanes), in(call.operands.back().shape, lanes);
  const auto* const first = reinterpret_cast<const T*>(call.operands[0].data);
  auto* const result = reinterpret_cast<T*>(call.results[0].data);
  const auto s = ops::window_of(call.attributes);
  if (op == "max_pool2d")
    return PreparedKernel(
        [=, w = with_windows_of_inputs(call, in)] { max_pool<lanes>(w, n, in, first, result); });
  if (op == "avg_pool2d")
    return PreparedKernel(
        [=, w = with_windows_of_inputs(call, in), pads = call.attributes.flag("count_pads", true)] {
          avg_pool<lanes>(w, pads, n, in, first, result);
        });
  workspace.reserve(bytes_of_sums(call.results[0].dtype, out, lanes));
  if (op == "avg_pool2d_grad") {
    const Windows w{ops::with_window_of_outputs(s[0], call, "h", n.rows),
                    ops::with_window_of_outputs(s[1], call, "w", n.columns)};
    return PreparedKernel([=, &workspace, counts = Counts(call, n)] {
      avg_pool_gradient<lanes>(w, counts, n, out, first, result, workspace.data());
    });
  }
  const auto rows = ops::touched(s[0], call, "h", in.rows, n.rows);
  const auto columns = ops::touched(s[1], call, "w", in.columns, n.columns);
  return PreparedKernel([=, &workspace, x = reinterpret_cast<const T*>(call.operands[1].data)] {
    max_pool_gradient<lanes>({rows.reads, columns.reads}, {rows.inside, columns.inside}, n, in, out, first, x,
                             result, workspace.data());
  });
}

}  // namespace

std::optional<Formats> pooling_formats(const OpDef& op, const KernelCall& call) {
  if (!is_pooling(op.name)) return {};
  if (!is_for_blocks(call.results[0].dtype)) return Formats{};
  return Formats{.operands = std::vector<std::optional<Format>>(call.operands.size()),
                 .results = std::vector<std::optional<Format>>(1),
                 .common = image_formats()};
}

PreparedKernel blocked_pooling(const FusedCall& fused, Workspace& workspace) {
  const int lanes_wanted = lanes_of(fused.operand_format(0));
  if (!is_pooling(fused.op.name) || lanes_wanted == 0) return {};
  return with_images(lanes_wanted, fused.call.results[0].dtype, [&]<int lanes, class T>() {
    return prepared<lanes, T>(fused.op.name, fused.call, workspace);
  });
}

}  // namespace shardwright::cpu
