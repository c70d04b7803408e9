// Pooling over windows of the two last dims of [batch, channels, rows, columns]: the largest, and the mean.
//
//   max_pool2d  y = the largest x in the window; of equal ones the first gets the gradient (as PyTorch)
//   avg_pool2d  y = the sum of the window / its size; with count_pads=false / what of it lies inside
//
// All dims may be split; rows and columns by way of halos where windows overlap.

#include <cmath>
#include <limits>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/sliding.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  check_floating(call.operands[0].dtype);
  call.attributes.flag("count_pads");
  check_images(call, 0, "[batch, channels, rows, columns]");
  Shape y = call.operands[0].shape;
  const auto spatial = window_of(call.attributes);
  for (std::size_t d = 0; d < 2; ++d) {
    const Spatial& s = spatial[d];
    if (s.before > s.reach() || s.after > s.reach())
      throw error("a pad of {} is not smaller than the window, which reaches over {}",
                  std::max(s.before, s.after), s.reach() + 1);
    if (y[2 + d] + s.before + s.after <= s.reach())
      throw error("a window that reaches over {} is larger than {} with its pads", s.reach() + 1, y[2 + d]);
    y[2 + d] = s.out(y[2 + d]);
  }
  return {{call.operands[0].dtype, std::move(y)}};
}

std::string rule(const Call& call) {
  const auto s = window_of(call.attributes);
  return fmt::format("b c h{} w{} -> b c h w", s[0].reads(), s[1].reads());
}

/// Operands of a gradient: dy and, of max_pool2d, x.
std::vector<Type> infer_gradient(const Call& call, bool has_x) {
  check_count(call, has_x ? 2 : 1);
  check_floating(call.operands[0].dtype);
  call.attributes.flag("count_pads");
  check_images(call, 0, "[batch, channels, rows, columns]");
  Shape dx = call.operands[0].shape;
  const auto size = size_of_input(call, window_of(call.attributes), dx);
  std::copy(size.begin(), size.end(), dx.begin() + 2);
  if (has_x && call.operands[1] != Type{call.operands[0].dtype, dx})
    throw error("operand 1 is {} but must be {}", to_text(call.operands[1]),
                to_text(Type{call.operands[0].dtype, dx}));
  return {{call.operands[0].dtype, std::move(dx)}};
}

/// Inputs that share an output with one: those that its windows reach.
std::string neighbourhood(const Spatial& s) { return fmt::format("~(1 1 {} {})", -s.reach(), s.reach()); }

std::string rule_max_gradient(const Call& call) {
  const auto s = window_of(call.attributes);
  return fmt::format("b c h{} w{}, b c h{} w{} -> b c h w", s[0].is_read(), s[1].is_read(),
                     neighbourhood(s[0]), neighbourhood(s[1]));
}

std::string rule_avg_gradient(const Call& call) {
  const auto s = window_of(call.attributes);
  return fmt::format("b c h{} w{} -> b c h w", s[0].is_read(), s[1].is_read());
}

Attributes with_size(Gradient& g) {
  Attributes out = g.attributes();
  const Shape& x = g.type(g.in(0)).shape;
  out.set("size", std::vector<std::int64_t>{x[2], x[3]});
  return out;
}

// ---- kernels ----

/// Calls `use(row, column)` for each input position that output (q, j) reads.
template <class F>
void for_each_input(const Local& rows, const Local& columns, std::int64_t q, std::int64_t j, F use) {
  for (std::int64_t kh = 0; kh < rows.kernel; ++kh) {
    const std::int64_t p = rows.input(q, kh);
    if (p < 0 || p >= rows.in) continue;
    for (std::int64_t kw = 0; kw < columns.kernel; ++kw) {
      const std::int64_t c = columns.input(j, kw);
      if (c >= 0 && c < columns.in) use(p, c);
    }
  }
}

void max_kernel(const KernelCall& call) {
  const Shape &xs = call.operands[0].shape, &ys = call.results[0].shape;
  const auto s = window_of(call.attributes);
  const Local rows = with_window_of_inputs(s[0], call, "h", xs[2]);
  const Local columns = with_window_of_inputs(s[1], call, "w", xs[3]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t plane = 0; plane < ys[0] * ys[1]; ++plane)
      for (std::int64_t q = 0; q < ys[2]; ++q)
        for (std::int64_t j = 0; j < ys[3]; ++j) {
          auto most = -std::numeric_limits<Compute<T>>::infinity();
          for_each_input(rows, columns, q, j, [&](std::int64_t p, std::int64_t c) {
            const auto v = static_cast<Compute<T>>(x[(plane * xs[2] + p) * xs[3] + c]);
            if (v > most || v != v) most = v;
          });
          *y++ = static_cast<T>(most);
        }
  });
}

/// The outputs that touch this rank's part of the inputs, of which dy is a window; x reaches as far as they do.
void max_gradient_kernel(const KernelCall& call) {
  const Shape &ys = call.operands[0].shape, &xs = call.operands[1].shape, &ds = call.results[0].shape;
  const auto s = window_of(call.attributes);
  const Touched rows = touched(s[0], call, "h", xs[2], ys[2]),
                columns = touched(s[1], call, "w", xs[3], ys[3]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T *dy = call.operands[0].as<T>().data(), *const x = call.operands[1].as<T>().data();
    T* const dx = call.results[0].as<T>().data();
    std::fill_n(dx, call.results[0].size(), T(0));
    for (std::int64_t plane = 0; plane < ys[0] * ys[1]; ++plane)
      for (std::int64_t q = 0; q < ys[2]; ++q)
        for (std::int64_t j = 0; j < ys[3]; ++j, ++dy) {
          auto most = -std::numeric_limits<Compute<T>>::infinity();
          std::int64_t row = -1, column = -1;
          for_each_input(rows.reads, columns.reads, q, j, [&](std::int64_t p, std::int64_t c) {
            const auto v = static_cast<Compute<T>>(x[(plane * xs[2] + p) * xs[3] + c]);
            if (row >= 0 && !(v > most) && v == v) return;
            most = v;
            row = p;
            column = c;
          });
          const std::int64_t p = row - rows.inside, c = column - columns.inside;
          if (row < 0 || p < 0 || p >= ds[2] || c < 0 || c >= ds[3]) continue;
          T& to = dx[(plane * ds[2] + p) * ds[3] + c];
          to = static_cast<T>(static_cast<Compute<T>>(to) + static_cast<Compute<T>>(*dy));
        }
  });
}

void avg_kernel(const KernelCall& call) {
  const Shape &xs = call.operands[0].shape, &ys = call.results[0].shape;
  const auto s = window_of(call.attributes);
  const bool pads = call.attributes.flag("count_pads", true);
  const Local rows = with_window_of_inputs(s[0], call, "h", xs[2]);
  const Local columns = with_window_of_inputs(s[1], call, "w", xs[3]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t plane = 0; plane < ys[0] * ys[1]; ++plane)
      for (std::int64_t q = 0; q < ys[2]; ++q)
        for (std::int64_t j = 0; j < ys[3]; ++j) {
          Compute<T> sum{};
          std::int64_t n = 0;  // the window that this rank got ends only where the image does
          for_each_input(rows, columns, q, j, [&](std::int64_t p, std::int64_t c) {
            sum += static_cast<Compute<T>>(x[(plane * xs[2] + p) * xs[3] + c]);
            ++n;
          });
          if (pads) n = rows.kernel * columns.kernel;
          *y++ = static_cast<T>(sum / static_cast<Compute<T>>(n));
        }
  });
}

void avg_gradient_kernel(const KernelCall& call) {
  const Shape &ys = call.operands[0].shape, &ds = call.results[0].shape;
  const auto s = window_of(call.attributes);
  const auto size = numbers<2>(call.attributes, "size", 1, 1);
  const bool pads = call.attributes.flag("count_pads", true);
  const Local rows = with_window_of_outputs(s[0], call, "h", ys[2]);
  const Local columns = with_window_of_outputs(s[1], call, "w", ys[3]);
  const std::int64_t first_q = first_output(s[0], call, "h"), first_j = first_output(s[1], call, "w");
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* dy = call.operands[0].as<T>().data();
    T* const dx = call.results[0].as<T>().data();
    std::fill_n(dx, call.results[0].size(), T(0));
    for (std::int64_t plane = 0; plane < ys[0] * ys[1]; ++plane)
      for (std::int64_t q = 0; q < ys[2]; ++q)
        for (std::int64_t j = 0; j < ys[3]; ++j, ++dy) {
          const std::int64_t n =
              counted(s[0], first_q + q, size[0], pads) * counted(s[1], first_j + j, size[1], pads);
          const auto share = static_cast<Compute<T>>(*dy) / static_cast<Compute<T>>(n);
          for_each_input(rows, columns, q, j, [&](std::int64_t p, std::int64_t c) {
            T& to = dx[(plane * ds[2] + p) * ds[3] + c];
            to = static_cast<T>(static_cast<Compute<T>>(to) + share);
          });
        }
  });
}

/// One operation per element of a window.
std::vector<std::string> attributes(std::vector<std::string> more) {
  for (const char* name : {"kernel", "strides", "dilations", "pads"}) more.emplace_back(name);
  return more;
}

const Attributes window_defaults{{"kernel", std::vector<std::int64_t>{1, 1}},
                                 {"strides", std::vector<std::int64_t>{1, 1}},
                                 {"dilations", std::vector<std::int64_t>{1, 1}},
                                 {"pads", std::vector<std::int64_t>{0, 0, 0, 0}}};

Attributes with_pads_counted(Attributes a) {
  a.set("count_pads", true);
  return a;
}

/// How many inputs each of `count` outputs from `first` on counts.
std::vector<std::int64_t> counts_of(const Spatial& s, std::int64_t first, std::int64_t count, std::int64_t in,
                                    bool pads) {
  std::vector<std::int64_t> out;
  for (std::int64_t q = first; q < first + count; ++q) out.push_back(counted(s, q, in, pads));
  return out;
}

/// In PyTorch: the sums of windows, and what gives them back.
constexpr const char* window_sums = R"(
def window_sums(x, kernel, strides, dilations):
    ones = torch.ones([1, 1] + kernel, dtype=x.dtype, device=x.device)
    y = F.conv2d(x.flatten(0, 1).unsqueeze(1), ones, None, strides, 0, dilations)
    return y.reshape(x.shape[:2] + y.shape[2:])
)";

}  // namespace

std::vector<OpDef> pool2d() {
  using Values = std::vector<ValueId>;
  return {
      {.name = "max_pool2d",
       .doc = "y = the largest x in each window",
       .attributes = attributes({}),
       .defaults = window_defaults,
       .rule_for = rule,
       .infer = infer,
       .gradient =
           [](Gradient& g) {
             return Values{g.call("max_pool2d_grad", {g.dy(), g.in(0)}, with_size(g))};
           },
       .kernel = max_kernel,
       .samples = {"f32[2,2,12,6] (kernel=[2, 2], strides=[2, 2])",
                   "f32[2,2,12,12] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])",
                   "f32[2,2,12,6] (dilations=[2, 1], kernel=[2, 3], pads=[1, 1, 1, 1])",
                   "f32[2,2,18,12] (kernel=[2, 3], pads=[1, 1, 0, 1], strides=[3, 7])"},
       .torch = {.line = "max_pool2d({0}, {kernel}, {strides}, {dilations}, {shift}, {out})",
                 .numbers =
                     [](const KernelCall& c) {
                       return window_of_inputs(c, window_of(c.attributes), c.operands[0].shape);
                     },
                 .functions = std::string(image_in_torch) + R"(
def max_pool2d(x, kernel, strides, dilations, shift, out):
    x = read_image(x, kernel, strides, dilations, shift, out, -math.inf)
    return F.max_pool2d(x, kernel, strides, 0, dilations)
)"},
       .jax = {.functions = windows_in_jax + R"(
def max_pool2d(x, kernel, strides, dilations, shift, out):
    return windows(x, kernel, strides, dilations, shift, out, -jnp.inf).max(0)
)"}},
      {.name = "max_pool2d_grad",
       .doc = "the gradient of max_pool2d, of spatial size `size`, from dy and x",
       .attributes = attributes({"size"}),
       .defaults = window_defaults,
       .rule_for = rule_max_gradient,
       .linear = "{0}",
       .infer = [](const Call& c) { return infer_gradient(c, true); },
       .kernel = max_gradient_kernel,
       .samples =
           {"f32[2,2,6,3], f32[2,2,12,6] (kernel=[2, 2], size=[12, 6], strides=[2, 2])",
            "f32[2,2,6,6], f32[2,2,12,12] (kernel=[3, 3], pads=[1, 1, 1, 1], size=[12, 12], strides=[2, 2])",
            "f32[2,2,12,6], f32[2,2,12,6] (dilations=[2, 1], kernel=[2, 3], pads=[1, 1, 1, 1], size=[12, "
            "6])",
            "f32[2,2,6,2], f32[2,2,18,12] (kernel=[2, 3], pads=[1, 1, 0, 1], size=[18, 12], strides=[3, "
            "7])"},
       .torch =
           {.line = "max_pool2d_grad({0}, {1}, {kernel}, {strides}, {dilations}, {shift}, {inside}, {shape})",
            .numbers =
                [](const KernelCall& c) {
                  const auto s = window_of(c.attributes);
                  const Shape &ys = c.operands[0].shape, &xs = c.operands[1].shape;
                  const Touched rows = touched(s[0], c, "h", xs[2], ys[2]),
                                columns = touched(s[1], c, "w", xs[3], ys[3]);
                  return Attributes{
                      {"shift", std::vector<std::int64_t>{rows.reads.shift, columns.reads.shift}},
                      {"inside", std::vector<std::int64_t>{rows.inside, columns.inside}}};
                },
            .functions = std::string(image_in_torch) + R"(
def max_pool2d_grad(dy, x, kernel, strides, dilations, shift, inside, shape):
    """dx begins at `inside` of x."""
    x = read_image(x, kernel, strides, dilations, shift, dy.shape[2:], -math.inf)
    _, at = F.max_pool2d(wide(x), kernel, strides, 0, dilations, return_indices=True)
    dx = torch.zeros_like(wide(x)).flatten(2).scatter_add(2, at.flatten(2), wide(dy).flatten(2)).reshape(x.shape)
    before = [shift[d] - inside[d] for d in (0, 1)]
    after = [shape[2 + d] - x.shape[2 + d] - before[d] for d in (0, 1)]
    return F.pad(dx, (before[1], after[1], before[0], after[0])).to(dy.dtype)
)"},
       .jax = {.functions = windows_in_jax + R"(
def max_pool2d_grad(dy, x, kernel, strides, dilations, shift, inside, shape):
    """Of equal elements the first gets it; x is all that its windows read."""
    read = lambda v, value: windows(v, kernel, strides, dilations, shift, dy.shape[2:], value)
    first = jnp.argmax(read(x, -jnp.inf), 0)[None]
    return gradient(lambda v: jnp.take_along_axis(read(v, 0.0), first, 0)[0], dy, x)
)"}},
      {.name = "avg_pool2d",
       .doc = "y = the mean of x in each window",
       .attributes = attributes({"count_pads"}),
       .defaults = with_pads_counted(window_defaults),
       .rule_for = rule,
       .linear = "{0}",
       .infer = infer,
       .gradient = [](Gradient& g) { return Values{g.call("avg_pool2d_grad", {g.dy()}, with_size(g))}; },
       .kernel = avg_kernel,
       .samples = {"f32[2,2,12,6] (kernel=[2, 2], strides=[2, 2])",
                   "f32[2,2,12,12] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])",
                   "f32[2,2,12,6] (count_pads=false, dilations=[1, 2], kernel=[3, 2], pads=[1, 1, 1, 1])",
                   "f32[2,2,18,12] (kernel=[2, 3], pads=[1, 1, 0, 1], strides=[3, 7])",
                   "f32[2,2,12,12] (count_pads=false, dilations=[2, 1], kernel=[2, 1], pads=[1, 0, 1, 0], "
                   "strides=[4, 5])"},
       .torch = {.line = "avg_pool2d({0}, {kernel}, {strides}, {dilations}, {shift}, {out}, {count_pads})",
                 .numbers =
                     [](const KernelCall& c) {
                       return window_of_inputs(c, window_of(c.attributes), c.operands[0].shape);
                     },
                 .functions = std::string(image_in_torch) + window_sums + R"(
def avg_pool2d(x, kernel, strides, dilations, shift, out, count_pads):
    read = [read_image(v, kernel, strides, dilations, shift, out) for v in (wide(x), torch.ones_like(wide(x)))]
    sums = window_sums(read[0], kernel, strides, dilations)
    if count_pads:
        return (sums / (kernel[0] * kernel[1])).to(x.dtype)
    return (sums / window_sums(read[1], kernel, strides, dilations)).to(x.dtype)
)"},
       .jax = {.functions = windows_in_jax + R"(
def avg_pool2d(x, kernel, strides, dilations, shift, out, count_pads):
    sums, inside = (windows(v, kernel, strides, dilations, shift, out, 0.0).sum(0) for v in (wide(x), jnp.ones_like(x)))
    return (sums / (kernel[0] * kernel[1] if count_pads else wide(inside))).astype(x.dtype)
)"}},
      {.name = "avg_pool2d_grad",
       .doc = "the gradient of avg_pool2d, of spatial size `size`, from dy",
       .attributes = attributes({"count_pads", "size"}),
       .defaults = with_pads_counted(window_defaults),
       .rule_for = rule_avg_gradient,
       .linear = "{0}",
       .infer = [](const Call& c) { return infer_gradient(c, false); },
       .kernel = avg_gradient_kernel,
       .samples = {"f32[2,2,6,3] (kernel=[2, 2], size=[12, 6], strides=[2, 2])",
                   "f32[2,2,6,6] (kernel=[3, 3], pads=[1, 1, 1, 1], size=[12, 12], strides=[2, 2])",
                   "f32[2,2,12,6] (count_pads=false, dilations=[1, 2], kernel=[3, 2], pads=[1, 1, 1, 1], "
                   "size=[12, 6])",
                   "f32[2,2,6,2] (kernel=[2, 3], pads=[1, 1, 0, 1], size=[18, 12], strides=[3, 7])",
                   "f32[2,2,3,3] (count_pads=false, dilations=[2, 1], kernel=[2, 1], pads=[1, 0, 1, 0], "
                   "size=[12, 12], strides=[4, 5])"},
       .torch =
           {.line =
                "avg_pool2d_grad({0}, {kernel}, {strides}, {dilations}, {shift}, {rows}, {columns}, {shape})",
            .numbers =
                [](const KernelCall& c) {
                  const auto s = window_of(c.attributes);
                  const auto size = numbers<2>(c.attributes, "size", 1, 1);
                  const bool pads = c.attributes.flag("count_pads", true);
                  const Shape& ys = c.operands[0].shape;
                  Attributes out = window_of_outputs(c, s, ys);
                  out.set("rows", counts_of(s[0], first_output(s[0], c, "h"), ys[2], size[0], pads));
                  out.set("columns", counts_of(s[1], first_output(s[1], c, "w"), ys[3], size[1], pads));
                  return out;
                },
            .functions = R"(
def avg_pool2d_grad(dy, kernel, strides, dilations, shift, rows, columns, shape):
    """`rows` and `columns`: how many inputs each output counts."""
    count = torch.tensor(rows, device=dy.device).unsqueeze(1) * torch.tensor(columns, device=dy.device)
    each = (wide(dy) / count).flatten(0, 1).unsqueeze(1)
    ones = torch.ones([1, 1] + kernel, dtype=each.dtype, device=dy.device)
    dx = F.conv_transpose2d(each, ones, None, strides, 0, 0, 1, dilations)
    dx = dx.reshape(dy.shape[:2] + dx.shape[2:])
    after = [shape[2 + d] - dx.shape[2 + d] - shift[d] for d in (0, 1)]
    return F.pad(dx, (shift[1], after[1], shift[0], after[0])).to(dy.dtype)
)"},
       .jax = {.functions = windows_in_jax + R"(
def avg_pool2d_grad(dy, kernel, strides, dilations, shift, rows, columns, shape):
    """`rows` and `columns`: how many inputs each output counts."""
    each = wide(dy) / (jnp.array(rows)[:, None] * jnp.array(columns)).astype(wide(dy).dtype)
    sums = lambda x: windows(x, kernel, strides, dilations, shift, dy.shape[2:], 0.0).sum(0)
    return jax.linear_transpose(sums, jax.ShapeDtypeStruct(shape, each.dtype))(each)[0].astype(dy.dtype)
)"}}};
}

}  // namespace shardwright::ops
