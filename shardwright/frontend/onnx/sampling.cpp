// GridSample, AffineGrid and DeformConv: images read at places that are computed.
//
//   x [b, c, size...] and a grid [b, out..., dims] of places from -1 to 1, the last dim first -> y [b, c, out...]
//
// y is the sum over the elements around a place of their value by their weight: along each dim one element (nearest), two or
// four. Elements are taken from all of x's in one dim; weights, which the gradient of the grid comes from, are those of
// the distance to the place. What lies outside is 0, or is an element inside: the edge, or what a mirror there shows.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/windows.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

/// Places along one dim are numbers [b, 1, points].
struct Sampling {
  enum class Mode : std::uint8_t { nearest, linear, cubic } mode = Mode::linear;
  enum class Outside : std::uint8_t { zeros, border, reflection } outside = Outside::zeros;
  bool aligns_corners = false;
};

/// An element along one dim for each point: where it lies, and what it weighs.
struct Tap {
  ValueId at;      // i64[b, 1, points], inside
  ValueId weight;  // or nothing where it is 1
};

Sampling read_sampling(OnnxNode& n) {
  const std::string mode = n.text("mode", n.opset() < 20 ? "bilinear" : "linear");
  const std::string outside = n.text("padding_mode", "zeros");
  Sampling s;
  if (mode == "nearest")
    s.mode = Sampling::Mode::nearest;
  else if (mode == "cubic" || mode == "bicubic")
    s.mode = Sampling::Mode::cubic;
  else if (mode != "linear" && mode != "bilinear")
    throw error("attribute 'mode={}' is not supported", printable(mode));
  if (outside == "border")
    s.outside = Sampling::Outside::border;
  else if (outside == "reflection")
    s.outside = Sampling::Outside::reflection;
  else if (outside != "zeros")
    throw error("attribute 'padding_mode={}' is not supported", printable(outside));
  s.aligns_corners = n.integer("align_corners", 0) != 0;
  return s;
}

ValueId shifted_by(OnnxNode& n, ValueId x, double by) {
  return by == 0 ? x : n.call("shift", {x}, {{"value", by}});
}

/// A place mirrored at both ends until it lies between them: the ends are those of elements, or half of one beyond.
ValueId reflected(OnnxNode& n, ValueId place, std::int64_t size, bool aligns_corners) {
  const double first = aligns_corners ? 0 : -0.5, span = static_cast<double>(size) - (aligns_corners ? 1 : 0);
  if (span <= 0) return times(n, place, 0);
  const ValueId from_first = shifted_by(n, place, -first);
  const ValueId rounds = n.call("floor", {times(n, from_first, 1 / (2 * span))});
  const ValueId within = n.call("sub", {from_first, times(n, rounds, 2 * span)});  // from 0 to 2 span
  const ValueId behind = n.call("abs", {shifted_by(n, within, -span)});
  return shifted_by(n, n.call("neg", {behind}), span + first);
}

ValueId cut_off(OnnxNode& n, ValueId place, std::int64_t size) {
  return n.call("clip", {place}, {{"min", 0.0}, {"max", static_cast<double>(size - 1)}});
}

/// Numbers 1 where a whole place lies inside, else 0.
ValueId is_inside(OnnxNode& n, ValueId whole, std::int64_t size) {
  const DType dtype = n.type_of(whole).dtype;
  const ValueId behind = n.call("greater_equal", {whole, constant(n.builder(), dtype, 0)});
  const ValueId before =
      n.call("less_equal", {whole, constant(n.builder(), dtype, static_cast<double>(size - 1))});
  return cast_called(n, n.call("logical_and", {behind, before}), dtype);
}

/// The element at a whole place, and its weight times 1 or 0 where what lies outside is 0.
Tap tap_at(OnnxNode& n, const Sampling& s, ValueId whole, ValueId weight, std::int64_t size) {
  if (s.outside == Sampling::Outside::reflection) whole = reflected(n, whole, size, s.aligns_corners);
  Tap tap{.at = cast_called(n, n.call("round", {cut_off(n, whole, size)}), DType::i64), .weight = weight};
  if (s.outside != Sampling::Outside::zeros) return tap;
  const ValueId counts = is_inside(n, whole, size);
  tap.weight = weight.is_valid() ? n.call("mul", {weight, counts}) : counts;
  return tap;
}

/// What elements at distances 1 + f, f, 1 - f and 2 - f weigh in a cubic interpolation (Keys 1981, a = -0.75).
ValueId cubic_weight(OnnxNode& n, ValueId distance, bool is_far) {
  constexpr double a = -0.75;
  const double c[2][4] = {{1, 0, -(a + 3), a + 2}, {-4 * a, 8 * a, -5 * a, a}};
  const double* const k = c[is_far ? 1 : 0];
  ValueId y = shifted_by(n, times(n, distance, k[3]), k[2]);
  y = shifted_by(n, n.call("mul", {y, distance}), k[1]);
  return shifted_by(n, n.call("mul", {y, distance}), k[0]);
}

/// The elements around a place along one dim.
std::vector<Tap> taps_along(OnnxNode& n, const Sampling& s, ValueId place, std::int64_t size) {
  if (s.mode == Sampling::Mode::nearest) {
    if (s.outside == Sampling::Outside::border) place = cut_off(n, place, size);
    return {tap_at(n, s, n.call("round", {place}), {}, size)};
  }
  const bool is_cubic = s.mode == Sampling::Mode::cubic;
  if (!is_cubic && s.outside == Sampling::Outside::reflection)
    place = reflected(n, place, size, s.aligns_corners);
  if (!is_cubic && s.outside != Sampling::Outside::zeros) place = cut_off(n, place, size);
  const ValueId left = n.call("floor", {place}), share = n.call("sub", {place, left});
  const ValueId rest = shifted_by(n, n.call("neg", {share}), 1);
  if (!is_cubic) return {tap_at(n, s, left, rest, size), tap_at(n, s, shifted_by(n, left, 1), share, size)};
  return {tap_at(n, s, shifted_by(n, left, -1), cubic_weight(n, shifted_by(n, share, 1), true), size),
          tap_at(n, s, left, cubic_weight(n, share, false), size),
          tap_at(n, s, shifted_by(n, left, 1), cubic_weight(n, rest, false), size),
          tap_at(n, s, shifted_by(n, left, 2), cubic_weight(n, shifted_by(n, rest, 1), true), size)};
}

/// The sum over all combinations of the dims' taps. x: [b, c, elements].
ValueId sampled(OnnxNode& n, ValueId x, const std::vector<std::vector<Tap>>& taps, const List& sizes) {
  const Shape shape = n.type_of(x).shape;
  std::size_t count = 1;
  for (const auto& of_dim : taps) count *= of_dim.size();
  std::vector<ValueId> addends;
  for (std::size_t i = 0; i < count; ++i) {
    ValueId at, weight;
    for (std::size_t d = 0, rest = i; d < taps.size(); rest /= taps[d++].size()) {
      const Tap& tap = taps[d][rest % taps[d].size()];
      if (d > 0) at = n.call("mul", {at, constant(n.builder(), DType::i64, static_cast<double>(sizes[d]))});
      at = d == 0 ? tap.at : n.call("add", {at, tap.at});
      if (tap.weight.is_valid())
        weight = weight.is_valid() ? n.call("mul", {weight, tap.weight}) : tap.weight;
    }
    at = stretched(n, at, {shape[0], shape[1], n.type_of(at).shape[2]});
    ValueId one = n.call("take_along_dim", {x, at}, {{"dim", std::int64_t{2}}});
    if (weight.is_valid()) one = n.call("mul", {one, cast_called(n, weight, n.type_of(x).dtype)});
    addends.push_back(one);
  }
  return addends.size() == 1 ? addends.front() : n.call("sum", std::move(addends));
}

void grid_sample(OnnxNode& n) {
  const Sampling s = read_sampling(n);
  const Shape x = n.shape(0), grid = n.shape(1);
  const std::size_t dims = x.size() < 2 ? 0 : x.size() - 2;
  if (dims < 1 || dims > 3 || grid.size() != x.size() || grid.back() != static_cast<std::int64_t>(dims) ||
      grid[0] != x[0])
    throw error("a grid of {} does not say where in {}", to_text(grid), to_text(x));
  const List sizes(x.begin() + 2, x.end());
  const std::int64_t points = element_count(grid) / (grid[0] * grid.back());
  // Places of f32 at least: elements of large images are not told apart in short types.
  const ValueId places =
      cast_called(n, reshaped(n, n.in(1), {x[0], points, grid.back()}), n.kept_precision());
  std::vector<std::vector<Tap>> taps;
  for (std::size_t d = 0; d < dims; ++d) {
    const auto at = static_cast<std::int64_t>(dims - 1 - d);
    const ValueId share = reshaped(n, part(n, places, 2, at, at + 1), {x[0], 1, points});
    const auto size = static_cast<double>(sizes[d]), wide = s.aligns_corners ? size - 1 : size;
    const ValueId place = shifted_by(n, times(n, share, wide / 2), (size - 1) / 2);
    taps.push_back(taps_along(n, s, place, sizes[d]));
  }
  const ValueId y = sampled(n, reshaped(n, n.in(0), {x[0], x[1], element_count(sizes)}), taps, sizes);
  Shape shape{x[0], x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  n.give(reshaped(n, y, shape));
}

/// theta [b, dims, dims + 1] (x, y, ..., 1) for each point of an image of the size that is named.
void affine_grid(OnnxNode& n) {
  const Shape theta = n.shape(0);
  const List size = n.integers_of(1);
  const bool aligns_corners = n.integer("align_corners", 0) != 0;
  const std::int64_t dims = std::ssize(size) - 2;
  if ((dims != 2 && dims != 3) || theta != Shape{size[0], dims, dims + 1})
    throw error("maps of {} are not those of images of {}", to_text(theta), to_text(size));
  const Shape out(size.begin() + 2, size.end());
  check_limits(out, 1);
  const std::int64_t points = element_count(out);
  if (points * (dims + 1) > limits::constant_elements)
    throw error("of {} points is more than {} elements", points, limits::constant_elements);
  std::vector<double> base;
  for (std::int64_t i = 0; i < points; ++i) {
    for (std::size_t d = out.size(); d-- > 0;) {
      const auto at = static_cast<double>(i / strides_of(out)[d] % out[d]),
                 count = static_cast<double>(out[d]);
      base.push_back(aligns_corners ? (count == 1 ? -1 : 2 * at / (count - 1) - 1)
                                    : (2 * at + 1) / count - 1);
    }
    base.push_back(1);
  }
  const ValueId all = numbers(n, {n.type(0).dtype, {points, dims + 1}}, base);
  const ValueId y = n.main("matmul", {all, n.in(0)}, {{"transpose_b", true}});
  Shape shape{size[0]};
  shape.insert(shape.end(), out.begin(), out.end());
  shape.push_back(dims);
  n.give(reshaped(n, y, shape));
}

// ---- convolution at places that are computed ----

/// x [b, c, h, w] at the places of each tap of a kernel, moved by offsets [b, groups taps 2, oh, ow], each of `groups` of
/// the channels by its own: [b, c taps, oh ow].
ValueId deformed(OnnxNode& n, const Window& window, std::int64_t groups) {
  const Shape x = n.shape(0), offsets = n.shape(2);
  const std::int64_t taps = element_count(window.kernel), points = offsets[2] * offsets[3];
  const ValueId by =
      cast_called(n, reshaped(n, n.in(2), {x[0] * groups, taps, 2, points}), n.kept_precision());
  std::vector<std::vector<Tap>> of_dims;
  for (std::size_t d = 0; d < 2; ++d) {
    std::vector<double> begins;
    for (std::int64_t t = 0; t < taps; ++t)
      for (std::int64_t p = 0; p < points; ++p) {
        const std::int64_t tap = d == 0 ? t / window.kernel[1] : t % window.kernel[1];
        const std::int64_t out = d == 0 ? p / offsets[3] : p % offsets[3];
        begins.push_back(
            static_cast<double>(out * window.strides[d] + tap * window.dilations[d] - window.before(d)));
      }
    const auto at = static_cast<std::int64_t>(d);
    const ValueId begin = numbers(n, {n.kept_precision(), {1, taps, 1, points}}, begins);
    const ValueId place = n.call("add", {part(n, by, 2, at, at + 1), begin});
    of_dims.push_back(taps_along(n, {}, reshaped(n, place, {x[0] * groups, 1, taps * points}), x[2 + d]));
  }
  ValueId y = reshaped(n, n.in(0), {x[0] * groups, x[1] / groups, x[2] * x[3]});
  y = sampled(n, y, of_dims, {x[2], x[3]});
  if (n.has(4)) y = n.call("mul", {y, reshaped(n, n.in(4), {x[0] * groups, 1, taps * points})});
  return reshaped(n, y, {x[0], x[1] * taps, points});
}

void deform_conv(OnnxNode& n) {
  const Shape x = n.shape(0), w = n.shape(1), offsets = n.shape(2);
  if (x.size() != 4 || w.size() != 4 || offsets.size() != 4)
    throw error("of {} by {} at {} is not supported; all have 4 dims", to_text(x), to_text(w),
                to_text(offsets));
  const List kernel(w.begin() + 2, w.end());
  if (n.integers("kernel_shape", kernel) != kernel)
    throw error("kernel_shape {} is not that of the weight {}", to_text(n.integers("kernel_shape")),
                to_text(w));
  const Window window(n, x, kernel);
  const std::int64_t groups = n.integer("group", 1), offset_groups = n.integer("offset_group", 1);
  const std::int64_t taps = element_count(kernel);
  if (groups < 1 || offset_groups < 1 || x[1] != w[1] * groups || w[0] % groups != 0 ||
      x[1] % offset_groups != 0)
    throw error("{} channels in {} and {} groups do not fit a weight of {}", x[1], groups, offset_groups,
                to_text(w));
  const Shape wanted{x[0], offset_groups * taps * 2, window.out(0, x[2]), window.out(1, x[3])};
  if (offsets != wanted) throw error("offsets are {} but should be {}", to_text(offsets), to_text(wanted));
  if (n.has(4) && element_count(n.shape(4)) * 2 != element_count(wanted))
    throw error("a mask of {} does not fit offsets of {}", to_text(n.shape(4)), to_text(wanted));
  if (taps * wanted[2] * wanted[3] > limits::constant_elements)
    throw error("at {} places has more than {} elements", taps * wanted[2] * wanted[3],
                limits::constant_elements);
  const ValueId columns =
      reshaped(n, deformed(n, window, offset_groups), {x[0], groups, w[1] * taps, wanted[2] * wanted[3]});
  const ValueId weight = reshaped(n, n.in(1), {groups, w[0] / groups, w[1] * taps});
  ValueId y = reshaped(n, n.main("matmul", {weight, columns}), {x[0], w[0], wanted[2], wanted[3]});
  if (n.has(3)) y = n.call("add", {y, per_channel(n, n.in(3), 4)});
  n.give(y);
}

}  // namespace

std::vector<Conversion> sampling() {
  return {{"AffineGrid", affine_grid, false},
          {"DeformConv", deform_conv, false},
          {"GridSample", grid_sample, false}};
}

}  // namespace shardwright::onnx_operators
