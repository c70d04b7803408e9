// Two-dimensional convolution and its gradients, channels first: x [b, c, h, w], weight [o, c / groups, kh, kw].
//
//   y[b, o, h, w] = sum over i, kh, kw of x[b, i, h s + kh d - p, w s + kw d - p] weight[o, i, kh, kw]
//
// The gradient of x is the transposed convolution, which networks have forward too. Of the three operators each is linear
// in both operands, and the gradients of each are the two others.
//
// Batch, channels and the spatial dims may be split. A part of the rows reads a window of the operand's rows, so
// neighbours' rows are fetched first (the halo); which part this rank computes tells the kernel where its rows lie
// and how much padding is left for it. The kernel's own dims stay whole.

#include <algorithm>
#include <array>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/conv2d_in_python.h"
#include "shardwright/ops/sliding.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::int64_t groups_of(const Attributes& a) {
  const std::int64_t groups = a.integer("groups", 1);
  if (groups < 1) throw error("groups={} but must be at least 1", groups);
  return groups;
}

void check_operands(const Call& call, const char* first, const char* second) {
  check_count(call, 2);
  check_same_dtype(call, 0, 1);
  check_floating(call.operands[0].dtype);
  check_images(call, 0, first);
  check_images(call, 1, second);
}

std::vector<Type> infer(const Call& call) {
  check_operands(call, "[batch, channels, rows, columns]",
                 "[channels out, channels in, kernel rows, kernel columns]");
  const Shape &x = call.operands[0].shape, &w = call.operands[1].shape;
  const std::int64_t groups = groups_of(call.attributes);
  if (x[1] % groups != 0 || x[1] / groups != w[1] || w[0] % groups != 0)
    throw error("{} channels in {} groups do not fit a weight of {}", x[1], groups, to_text(w));
  const auto spatial = spatial_of(call.attributes, w[2], w[3]);
  Shape y{x[0], w[0], spatial[0].out(x[2]), spatial[1].out(x[3])};
  for (std::size_t d = 0; d < 2; ++d)
    if (x[2 + d] + spatial[d].before + spatial[d].after <= spatial[d].reach())
      throw error("a kernel that reaches over {} is larger than {} with its pads", spatial[d].reach() + 1,
                  x[2 + d]);
  return {{call.operands[0].dtype, std::move(y)}};
}

/// How channels are written: with groups, each of them is a part of both.
struct ChannelNames {
  std::string in, out;
  ChannelNames(const Attributes& a, const char* i, const char* o)
      : in(groups_of(a) == 1 ? i : fmt::format("(g {})", i)),
        out(groups_of(a) == 1 ? o : fmt::format("(g {})", o)) {}
};

std::string rule(const Call& call) {
  const Shape& w = call.operands[1].shape;
  const auto s = spatial_of(call.attributes, w[2], w[3]);
  const ChannelNames c(call.attributes, "i+", "o");
  return fmt::format("b {} h{} w{}, {} i+ kh^ kw^ -> b {} h w", c.in, s[0].reads(), s[1].reads(), c.out,
                     c.out);
}

// ---- gradients ----

std::vector<Type> infer_data(const Call& call) {
  check_operands(call, "[batch, channels out, rows, columns]",
                 "[channels out, channels in, kernel rows, kernel columns]");
  const Shape &dy = call.operands[0].shape, &w = call.operands[1].shape;
  const std::int64_t groups = groups_of(call.attributes);
  if (dy[1] != w[0] || w[0] % groups != 0)
    throw error("{} channels in {} groups do not fit a weight of {}", dy[1], groups, to_text(w));
  const auto size = size_of_input(call, spatial_of(call.attributes, w[2], w[3]), dy);
  return {{call.operands[0].dtype, {dy[0], element_count(Shape{w[1], groups}), size[0], size[1]}}};
}

std::string rule_data(const Call& call) {
  const Shape& w = call.operands[1].shape;
  const auto s = spatial_of(call.attributes, w[2], w[3]);
  const ChannelNames c(call.attributes, "i", "o+");
  return fmt::format("b {} h{} w{}, {} i kh^ kw^ -> b {} h w", c.out, s[0].is_read(), s[1].is_read(), c.out,
                     c.in);
}

std::vector<Type> infer_weight(const Call& call) {
  check_operands(call, "[batch, channels in, rows, columns]", "[batch, channels out, rows, columns]");
  const Shape &x = call.operands[0].shape, &dy = call.operands[1].shape;
  if (const std::int64_t groups = groups_of(call.attributes); x[1] % groups != 0 || dy[1] % groups != 0)
    throw error("{} and {} channels are not {} groups each", x[1], dy[1], groups);
  const auto kernel = numbers<2>(call.attributes, "kernel", 1, 1);
  const auto s = spatial_of(call.attributes, kernel[0], kernel[1]);
  for (std::size_t d = 0; d < 2; ++d)
    if (s[d].out(x[2 + d]) != dy[2 + d])
      throw error("a kernel of {} does not give the {} of dim {}", kernel[d], dy[2 + d], 2 + d);
  return {{call.operands[0].dtype, {dy[1], x[1] / groups_of(call.attributes), kernel[0], kernel[1]}}};
}

std::string rule_weight(const Call& call) {
  const auto kernel = numbers<2>(call.attributes, "kernel", 1, 1);
  const auto s = spatial_of(call.attributes, kernel[0], kernel[1]);
  const ChannelNames c(call.attributes, "i", "o");
  return fmt::format("b+ {} h{} w{}, b+ {} h+ w+ -> {} i kh^ kw^", c.in, s[0].reads(), s[1].reads(), c.out,
                     c.out);
}

/// What the three operators share, and of one of them `name`, the spatial size of `shape`.
Attributes geometry_of(Gradient& g, const char* name = nullptr, const Shape& shape = {}) {
  Attributes out;
  for (const auto& [key, value] : g.attributes())
    if (key != "size" && key != "kernel") out.set(key, value);
  if (name) out.set(name, std::vector<std::int64_t>{shape[2], shape[3]});
  return out;
}

std::vector<ValueId> gradient(Gradient& g) {
  const Shape x = g.type(g.in(0)).shape, w = g.type(g.in(1)).shape;
  return {g.call("conv_transpose2d", {g.dy(), g.in(1)}, geometry_of(g, "size", x)),
          g.call("conv2d_weight_grad", {g.in(0), g.dy()}, geometry_of(g, "kernel", w))};
}

std::vector<ValueId> transpose_gradient(Gradient& g) {
  const Shape w = g.type(g.in(1)).shape;
  return {g.call("conv2d", {g.dy(), g.in(1)}, geometry_of(g)),
          g.call("conv2d_weight_grad", {g.dy(), g.in(0)}, geometry_of(g, "kernel", w))};
}

std::vector<ValueId> weight_gradient(Gradient& g) {
  const Shape x = g.type(g.in(0)).shape;
  return {g.call("conv_transpose2d", {g.in(1), g.dy()}, geometry_of(g, "size", x)),
          g.call("conv2d", {g.in(0), g.dy()}, geometry_of(g))};
}

// ---- kernels ----

constexpr std::int64_t strip = 256;  // columns summed at a time

/// Sums `add(first column, columns, sums)` strip by strip and stores the strips in `row`.
template <class T, class Add>
void sum_row(T* row, std::int64_t columns, Add add) {
  std::array<Compute<T>, strip> sums;
  for (std::int64_t c = 0; c < columns; c += strip) {
    const std::int64_t n = std::min(strip, columns - c);
    std::fill_n(sums.data(), n, Compute<T>{});
    add(c, n, sums.data());
    for (std::int64_t i = 0; i < n; ++i) row[c + i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  }
}

struct Sizes {
  std::int64_t batch, groups, in, out;  // channels of one group
};

void forward_kernel(const KernelCall& call) {
  const Shape &xs = call.operands[0].shape, &ws = call.operands[1].shape;
  const auto spatial = spatial_of(call.attributes, ws[2], ws[3]);
  const Local rows = with_window_of_inputs(spatial[0], call, "h", xs[2]);
  const Local columns = with_window_of_inputs(spatial[1], call, "w", xs[3]);
  const Sizes n{xs[0], xs[1] / ws[1], ws[1], ws[0] / (xs[1] / ws[1])};
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T *const x = call.operands[0].as<T>().data(), *const w = call.operands[1].as<T>().data();
    T* const y = call.results[0].as<T>().data();
    vectorized([=] {
      for (std::int64_t row = 0; row < n.batch * n.groups * n.out * rows.out; ++row) {
        const std::int64_t q = row % rows.out, o = row / rows.out % (n.groups * n.out);
        const std::int64_t image = (row / rows.out / (n.groups * n.out) * n.groups + o / n.out) * n.in;
        sum_row(
            y + row * columns.out, columns.out, [&](std::int64_t c, std::int64_t count, Compute<T>* sums) {
              for (std::int64_t i = 0; i < n.in; ++i)
                for (std::int64_t kh = 0; kh < rows.kernel; ++kh) {
                  const std::int64_t p = rows.input(q, kh);
                  if (p < 0 || p >= rows.in) continue;
                  const T* const from = x + ((image + i) * rows.in + p) * columns.in;
                  for (std::int64_t kw = 0; kw < columns.kernel; ++kw) {
                    const auto tap =
                        static_cast<Compute<T>>(w[((o * n.in + i) * rows.kernel + kh) * columns.kernel + kw]);
                    const Range all = columns.outputs(kw, 0, columns.in);
                    const std::int64_t end = std::min(all.end, c + count), shift = columns.input(0, kw);
                    for (std::int64_t j = std::max(all.begin, c); j < end; ++j)
                      sums[j - c] += static_cast<Compute<T>>(from[j * columns.stride + shift]) * tap;
                  }
                }
            });
      }
    });
  });
}

void data_kernel(const KernelCall& call) {
  const Shape &ys = call.operands[0].shape, &ws = call.operands[1].shape, &xs = call.results[0].shape;
  const auto spatial = spatial_of(call.attributes, ws[2], ws[3]);
  const Local rows = with_window_of_outputs(spatial[0], call, "h", ys[2]);
  const Local columns = with_window_of_outputs(spatial[1], call, "w", ys[3]);
  const Sizes n{xs[0], xs[1] / ws[1], ws[1], ws[0] / (xs[1] / ws[1])};
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T *const dy = call.operands[0].as<T>().data(), *const w = call.operands[1].as<T>().data();
    T* const dx = call.results[0].as<T>().data();
    vectorized([=] {
      for (std::int64_t row = 0; row < n.batch * n.groups * n.in * rows.in; ++row) {
        const std::int64_t p = row % rows.in, i = row / rows.in % (n.groups * n.in), group = i / n.in;
        const std::int64_t image = (row / rows.in / (n.groups * n.in) * n.groups + group) * n.out;
        sum_row(dx + row * columns.in, columns.in, [&](std::int64_t c, std::int64_t count, Compute<T>* sums) {
          for (std::int64_t kh = 0; kh < rows.kernel; ++kh) {
            const Range q = rows.outputs(kh, p, p + 1);
            if (q.begin == q.end) continue;
            for (std::int64_t o = 0; o < n.out; ++o) {
              const T* const from = dy + ((image + o) * rows.out + q.begin) * columns.out;
              for (std::int64_t kw = 0; kw < columns.kernel; ++kw) {
                const std::int64_t at = ((group * n.out + o) * n.in + i % n.in) * rows.kernel + kh;
                const auto tap = static_cast<Compute<T>>(w[at * columns.kernel + kw]);
                const Range js = columns.outputs(kw, c, c + count);
                const std::int64_t shift = columns.input(0, kw) - c;
                for (std::int64_t j = js.begin; j < js.end; ++j)
                  sums[j * columns.stride + shift] += static_cast<Compute<T>>(from[j]) * tap;
              }
            }
          }
        });
      }
    });
  });
}

void weight_kernel(const KernelCall& call) {
  const Shape &xs = call.operands[0].shape, &ws = call.results[0].shape;
  const auto spatial = spatial_of(call.attributes, ws[2], ws[3]);
  const Local rows = with_window_of_inputs(spatial[0], call, "h", xs[2]);
  const Local columns = with_window_of_inputs(spatial[1], call, "w", xs[3]);
  const std::int64_t groups = xs[1] / ws[1];
  const Sizes n{xs[0], groups, ws[1], ws[0] / groups};
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T *const x = call.operands[0].as<T>().data(), *const dy = call.operands[1].as<T>().data();
    T* const dw = call.results[0].as<T>().data();
    vectorized([=] {
      for (std::int64_t tap = 0; tap < n.groups * n.out * n.in * rows.kernel * columns.kernel; ++tap) {
        const std::int64_t kw = tap % columns.kernel, kh = tap / columns.kernel % rows.kernel;
        const std::int64_t i = tap / columns.kernel / rows.kernel % n.in;
        const std::int64_t o = tap / columns.kernel / rows.kernel / n.in;
        const Range js = columns.outputs(kw, 0, columns.in), qs = rows.outputs(kh, 0, rows.in);
        const std::int64_t shift = columns.input(0, kw);
        Compute<T> sum{};
        for (std::int64_t b = 0; b < n.batch; ++b) {
          const T* const image = x + ((b * n.groups + o / n.out) * n.in + i) * rows.in * columns.in + shift;
          const T* const gradients = dy + (b * n.groups * n.out + o) * rows.out * columns.out;
          for (std::int64_t q = qs.begin; q < qs.end; ++q) {
            const T* const from = image + rows.input(q, kh) * columns.in;
            const T* const by = gradients + q * columns.out;
            for (std::int64_t j = js.begin; j < js.end; ++j)
              sum += static_cast<Compute<T>>(from[j * columns.stride]) * static_cast<Compute<T>>(by[j]);
          }
        }
        dw[tap] = static_cast<T>(sum);
      }
    });
  });
}

/// Multiplications and additions.
double flops(const Rule& rule) {
  double points = 2;
  for (const LoopDim& l : rule.loops) points *= static_cast<double>(l.size);
  return points;
}

/// Of the taps that a pixel could have, a stride leaves one in so many.
double data_flops(const Rule& rule) {
  double points = flops(rule);
  for (const Window& w : rule.operands.front().windows) points /= static_cast<double>(w.den);
  return points;
}

}  // namespace

std::vector<OpDef> conv2d() {
  const Attributes geometry_defaults{{"strides", std::vector<std::int64_t>{1, 1}},
                                     {"dilations", std::vector<std::int64_t>{1, 1}},
                                     {"pads", std::vector<std::int64_t>{0, 0, 0, 0}},
                                     {"groups", std::int64_t{1}}};
  const std::vector<std::string> geometry{"strides", "dilations", "pads", "groups"};
  const auto with = [&](const char* name) {
    std::vector<std::string> out = geometry;
    out.emplace_back(name);
    return out;
  };
  return {
      {.name = "conv2d",
       .doc = "y[b, o, h, w] = sum over i, kh, kw of x[b, i, h s + kh d - p, ...] weight[o, i, kh, kw]",
       .attributes = geometry,
       .defaults = geometry_defaults,
       .rule_for = rule,
       .linear = "{0} {1}",
       .infer = infer,
       .flops = flops,
       .gradient = gradient,
       .kernel = forward_kernel,
       .samples = {"f32[6,4,12,6], f32[6,4,3,3] (pads=[1, 1, 1, 1])",
                   "f32[2,2,12,12], f32[4,2,3,3] (pads=[1, 1, 1, 1], strides=[2, 2])",
                   "f32[2,2,12,6], f32[2,2,3,1] (dilations=[2, 1], pads=[2, 0, 2, 0])",
                   "f32[2,4,6,6], f32[6,2,3,3] (groups=2, pads=[1, 1, 1, 1])",
                   "f32[2,2,13,7], f32[2,2,2,2] (pads=[0, 1, 0, 0], strides=[2, 1])",
                   "f32[2,2,12,6], f32[2,2,1,1] (strides=[2, 1])",
                   "f32[2,2,6,6], f32[2,2,1,3] (pads=[3, 1, 3, 0])",
                   "f32[2,2,18,12], f32[4,2,2,3] (pads=[1, 1, 0, 1], strides=[3, 7])",
                   "f32[2,2,12,12], f32[2,2,2,1] (dilations=[2, 1], pads=[1, 0, 1, 0], strides=[4, 5])"},
       .torch = {.line = "conv2d({0}, {1}, {strides}, {dilations}, {shift}, {out})",
                 .numbers =
                     [](const KernelCall& c) {
                       const Shape& w = c.operands[1].shape;
                       return window_of_inputs(c, spatial_of(c.attributes, w[2], w[3]), c.operands[0].shape);
                     },
                 .functions = conv2d_in_torch},
       .jax = {.functions = conv2d_in_jax}},
      {.name = "conv_transpose2d",
       .doc = "y[b, i, p, ..] of spatial size `size` = sum of x[b, o, h, ..] weight[o, i, kh, ..] where p = "
              "h s + kh d - "
              "pad: the gradient of conv2d's x",
       .attributes = with("size"),
       .defaults = geometry_defaults,
       .rule_for = rule_data,
       .linear = "{0} {1}",
       .infer = infer_data,
       .flops = data_flops,
       .gradient = transpose_gradient,
       .kernel = data_kernel,
       .samples = {"f32[6,6,12,6], f32[6,4,3,3] (pads=[1, 1, 1, 1], size=[12, 6])",
                   "f32[2,4,6,6], f32[4,2,3,3] (pads=[1, 1, 1, 1], size=[12, 12], strides=[2, 2])",
                   "f32[2,2,12,6], f32[2,2,3,1] (dilations=[2, 1], pads=[2, 0, 2, 0], size=[12, 6])",
                   "f32[2,6,6,6], f32[6,2,3,3] (groups=2, pads=[1, 1, 1, 1], size=[6, 6])",
                   "f32[2,4,6,2], f32[4,2,2,3] (pads=[1, 1, 0, 1], size=[18, 12], strides=[3, 7])",
                   "f32[2,4,6,6], f32[4,2,3,1] (pads=[3, 2, 3, 2], size=[8, 8], strides=[2, 2])",
                   "f32[2,2,3,3], f32[2,2,2,1] (dilations=[2, 1], pads=[1, 0, 1, 0], size=[12, 12], "
                   "strides=[4, 5])"},
       .torch = {.line =
                     "conv_transpose2d({0}, {1}, {strides}, {dilations}, {groups_of_rank}, {shift}, {shape})",
                 .numbers =
                     [](const KernelCall& c) {
                       const Shape& w = c.operands[1].shape;
                       Attributes out =
                           window_of_outputs(c, spatial_of(c.attributes, w[2], w[3]), c.operands[0].shape);
                       out.set("groups_of_rank", c.results[0].shape[1] / w[1]);
                       return out;
                     },
                 .functions = conv_transpose2d_in_torch,
                 .joint = {{"conv2d_weight_grad",
                            {{0, 1}},
                            "conv2d_grads({0}, {1}, {other.0}, {strides}, {dilations}, {groups_of_rank}, "
                            "{shift}, {shape}, "
                            "{other.shape}, {other.shift}, {other.out})"}}},
       .jax = {.functions = conv_transpose2d_in_jax}},
      {.name = "conv2d_weight_grad",
       .doc = "the gradient of conv2d's weight, of spatial size `kernel`, from x and dy",
       .attributes = with("kernel"),
       .defaults = geometry_defaults,
       .rule_for = rule_weight,
       .linear = "{0} {1}",
       .infer = infer_weight,
       .flops = flops,
       .gradient = weight_gradient,
       .kernel = weight_kernel,
       .samples = {"f32[6,4,12,6], f32[6,6,12,6] (kernel=[3, 3], pads=[1, 1, 1, 1])",
                   "f32[2,2,12,12], f32[2,4,6,6] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])",
                   "f32[2,2,12,6], f32[2,2,12,6] (dilations=[2, 1], kernel=[3, 1], pads=[2, 0, 2, 0])",
                   "f32[2,4,6,6], f32[2,6,6,6] (groups=2, kernel=[3, 3], pads=[1, 1, 1, 1])",
                   "f32[2,2,18,12], f32[2,4,6,2] (kernel=[2, 3], pads=[1, 1, 0, 1], strides=[3, 7])",
                   "f32[2,2,12,12], f32[2,2,3,3] (dilations=[2, 1], kernel=[2, 1], pads=[1, 0, 1, 0], "
                   "strides=[4, 5])"},
       .is_made_by_rows = true,
       .torch = {.line = "conv2d_weight_grad({0}, {1}, {shape}, {strides}, {dilations}, {shift}, {out})",
                 .numbers =
                     [](const KernelCall& c) {
                       const Shape& w = c.results[0].shape;
                       return window_of_inputs(c, spatial_of(c.attributes, w[2], w[3]), c.operands[0].shape);
                     },
                 .functions = conv2d_weight_grad_in_torch},
       .jax = {.functions = conv2d_weight_grad_in_jax}}};
}

}  // namespace shardwright::ops
