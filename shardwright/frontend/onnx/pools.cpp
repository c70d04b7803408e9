// ONNX operators that pool windows: the largest, the mean, the p-norm, of windows or of all; and the largest put back.
//
// Each dim may be taken by itself: the largest of the largest is the largest, and the mean of a window that is cut off at
// edges is a mean along each dim. So three dims are two, and one.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/windows.h"

namespace shardwright::onnx_operators {

ValueId pooled(OnnxNode& n, ValueId x, const Window& window, std::string_view op, const Attributes& more) {
  const auto with = [&](Attributes attributes) {
    for (const auto& [name, value] : more) attributes.set(name, value);
    return attributes;
  };
  const Shape shape = n.type_of(x).shape;
  if (window.dims() < 3) {
    Attributes attributes = with(window.attributes(0, window.dims() == 2 ? 1 : Window::none, true));
    return with_dims(n, n.main(op, {with_two(n, x)}, std::move(attributes)), shape.size());
  }
  ValueId y = reshaped(n, x, {shape[0], shape[1] * shape[2], shape[3], shape[4]});
  y = n.call(op, {y}, with(window.attributes(1, 2, true)));
  const Shape plane = n.type_of(y).shape;
  y = reshaped(n, y, {shape[0], shape[1], shape[2], plane[2] * plane[3]});
  y = n.main(op, {y}, with(window.attributes(0, Window::none, true)));
  return reshaped(n, y, {shape[0], shape[1], n.type_of(y).shape[2], plane[2], plane[3]});
}

namespace {

using List = std::vector<std::int64_t>;

Window window_of(const OnnxNode& n) {
  Window window(n, n.shape(0), n.integers("kernel_shape"));
  if (n.integer("ceil_mode", 0) != 0) window.round_up(n.shape(0));
  return window;
}

// ---- the largest ----

/// Of a window: which of its places each tap is, counted in x, and the elements there, behind one another in a last dim.
struct Unfolded {
  ValueId elements;  // [b, c, out..., taps]
  List taps;         // what each tap adds to the place in x
  List begins;       // of the window of each output
  Shape out;
};

/// Places in an image of `size` count columns first, or rows first.
List steps_of(const Shape& size, bool is_transposed) {
  if (!is_transposed) return strides_of(size);
  List steps(size.size(), 1);
  for (std::size_t d = 1; d < size.size(); ++d) steps[d] = steps[d - 1] * size[d - 1];
  return steps;
}

Unfolded unfolded(OnnxNode& n, const Window& window, bool is_transposed) {
  const Shape x = n.shape(0), size(x.begin() + 2, x.end());
  const List steps = steps_of(size, is_transposed);
  Unfolded u;
  ValueId all = n.in(0);
  for (std::size_t d = 0; d < size.size(); ++d) {
    u.out.push_back(window.out(d, size[d]));
    all = padded(n, all, 2 + d, window.before(d), window.after(d), lowest_of(n.type(0).dtype));
  }
  const Shape grid = window.kernel;
  if (element_count(grid) > 1024) throw error("indices of windows of {} are not supported", to_text(grid));
  std::vector<ValueId> parts;
  for (std::int64_t t = 0; t < element_count(grid); ++t) {
    ValueId one = all;
    std::int64_t place = 0;
    for (std::size_t d = 0; d < size.size(); ++d) {
      const std::int64_t first = t / strides_of(grid)[d] % grid[d] * window.dilations[d];
      one = part(n, one, 2 + d, first, first + (u.out[d] - 1) * window.strides[d] + 1, window.strides[d]);
      place += first * steps[d];
    }
    u.taps.push_back(place);
    Shape shape = n.type_of(one).shape;
    shape.push_back(1);
    parts.push_back(reshaped(n, one, shape));
  }
  check_listed(element_count(u.out));
  for (std::int64_t q = 0; q < element_count(u.out); ++q) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < size.size(); ++d)
      place += (q / strides_of(u.out)[d] % u.out[d] * window.strides[d] - window.before(d)) * steps[d];
    u.begins.push_back(place);
  }
  u.elements = joined(n, std::move(parts), x.size());
  return u;
}

/// The place of each window's largest element among all of x.
ValueId places_of_largest(OnnxNode& n, const Window& window) {
  const Unfolded u = unfolded(n, window, n.integer("storage_order", 0) != 0);
  const Shape x = n.shape(0);
  const ValueId at = cast_called(n, n.call("argmax", {u.elements}, {{"dim", std::int64_t{-1}}}), DType::i64);
  ValueId place =
      n.call("gather", {integers(n, {std::ssize(u.taps)}, u.taps), at}, {{"dim", std::int64_t{0}}});
  place = n.call("add", {place, integers(n, u.out, u.begins)});
  Shape planes(x.size(), 1);
  planes[0] = x[0];
  planes[1] = x[1];
  check_listed(x[0] * x[1]);
  List first;
  for (std::int64_t p = 0; p < x[0] * x[1]; ++p) first.push_back(p * (element_count(x) / (x[0] * x[1])));
  return n.call("add", {place, integers(n, planes, first)});
}

void max_pool(OnnxNode& n) {
  const Window window = window_of(n);
  n.integer("storage_order", 0);  // of the places
  n.give(pooled(n, n.in(0), window, "max_pool2d", {}));
  if (n.gives(1)) n.give(places_of_largest(n, window));
}

/// Elements put at their places, which are those of an image of the size that the window leaves, with 0 elsewhere; a
/// larger `output_shape` has more of it behind.
void max_unpool(OnnxNode& n) {
  const Shape x = n.shape(0);
  const Window window(n, x, n.integers("kernel_shape"));
  Shape size{x[0], x[1]};
  for (std::size_t d = 0; d < window.dims(); ++d)
    size.push_back(element_count(Shape{x[2 + d] - 1, window.strides[d]}) + window.reach(d) -
                   window.before(d) - window.after(d));
  const Shape given = n.has(2) ? Shape(n.integers_of(2)) : size;
  check_limits(size, 1);
  check_limits(given, 1);
  bool fits = given.size() == size.size() && n.shape(1) == x;
  for (std::size_t d = 0; fits && d < size.size(); ++d)
    fits = d < 2 ? given[d] == size[d] : given[d] >= size[d];
  if (!fits) throw error("{} at places {} do not make {}", to_text(x), to_text(n.shape(1)), to_text(given));
  const std::int64_t count = element_count(x);
  const ValueId none = n.call("fill", {},
                              {{"shape", Shape{element_count(size), 1}},
                               {"value", 0.0},
                               {"dtype", std::string(name_of(n.type(0).dtype))}});
  const ValueId at = reshaped(n, cast_called(n, n.in(1), DType::i64), {count});
  ValueId y = n.main("scatter", {none, at, reshaped(n, n.in(0), {count, 1})}, {{"dim", std::int64_t{0}}});
  y = reshaped(n, y, size);
  for (std::size_t d = 2; d < size.size(); ++d) y = padded(n, y, d, 0, given[d] - size[d]);
  n.give(y);
}

// ---- the mean ----

/// Elements that ceil_mode adds are no pads: what a mean over all of its window is to be multiplied by.
ValueId without_rounding(OnnxNode& n, ValueId y, const Window& window) {
  const Shape x = n.shape(0);
  const Type type = n.type_of(y);
  for (std::size_t d = 0; d < window.dims(); ++d) {
    const std::int64_t end = x[2 + d] + window.pads[window.dims() + d];
    if (window.rounded[d] <= 0) continue;
    check_listed(type.shape[2 + d]);
    std::vector<double> factors;
    for (std::int64_t q = 0; q < type.shape[2 + d]; ++q) {
      const std::int64_t left = end + window.before(d) - q * window.strides[d];
      const std::int64_t count = std::min((left - 1) / window.dilations[d] + 1, window.kernel[d]);
      factors.push_back(static_cast<double>(window.kernel[d]) / static_cast<double>(count));
    }
    if (std::ranges::count(factors, 1) == std::ssize(factors)) continue;
    y = n.call("mul", {y, numbers(n, {type.dtype, along(2 + d, x.size(), std::ssize(factors))}, factors)});
  }
  return y;
}

void average_pool(OnnxNode& n) {
  const Window window = window_of(n);
  const bool counts_pads = n.integer("count_include_pad", 0) != 0;
  const ValueId y = pooled(n, n.in(0), window, "avg_pool2d", {{"count_pads", counts_pads}});
  n.give(counts_pads ? without_rounding(n, y, window) : y);
}

// ---- norms ----

/// |x|^p, and what turns a sum of such back.
ValueId to_the(OnnxNode& n, ValueId x, double p) {
  if (p == 2) return n.call("square", {x});
  const ValueId size = n.call("abs", {x});
  return p == 1 ? size : n.call("power", {size}, {{"exponent", p}});
}
ValueId root(OnnxNode& n, ValueId sum, double p) {
  if (p == 1) return sum;
  return p == 2 ? n.call("sqrt", {sum}) : n.call("power", {sum}, {{"exponent", 1 / p}});
}

double power_of(const OnnxNode& n) {
  const std::int64_t p = n.integer("p", 2);
  if (p < 1 || p > 64) throw error("attribute 'p={}' is not supported; it should be from 1 to 64", p);
  return static_cast<double>(p);
}

/// The sum over a window is its size times the mean that counts pads, which are 0.
void norm_pool(OnnxNode& n) {
  const Window window = window_of(n);
  const double p = power_of(n);
  const ValueId mean = pooled(n, to_the(n, n.in(0), p), window, "avg_pool2d", {{"count_pads", true}});
  n.give(root(n, times(n, mean, static_cast<double>(element_count(window.kernel))), p));
}

// ---- of all ----

std::optional<Attributes> all_behind_channels(const OnnxNode& n) {
  List dims;
  for (std::size_t d = 2; d < n.shape(0).size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  if (dims.empty()) return std::nullopt;
  return Attributes{{"dims", dims}, {"keep", true}};
}

void pool_all(OnnxNode& n, std::string_view op) {
  const auto dims = all_behind_channels(n);
  n.give(dims ? n.main(op, {n.in(0)}, *dims) : n.in(0));
}

void global_average_pool(OnnxNode& n) { pool_all(n, "reduce_mean"); }
void global_max_pool(OnnxNode& n) { pool_all(n, "reduce_max"); }

void global_norm_pool(OnnxNode& n) {
  const double p = power_of(n);
  const auto dims = all_behind_channels(n);
  const ValueId x = to_the(n, n.in(0), p);
  n.give(root(n, dims ? n.call("reduce_sum", {x}, *dims) : x, p));
}

}  // namespace

std::vector<Conversion> pools() {
  return {{"AveragePool", average_pool, false},
          {"GlobalAveragePool", global_average_pool, false},
          {"GlobalLpPool", global_norm_pool, false},
          {"GlobalMaxPool", global_max_pool, false},
          {"LpPool", norm_pool, false},
          {"MaxPool", max_pool, false},
          {"MaxUnpool", max_unpool, false}};
}

}  // namespace shardwright::onnx_operators
