// Resize and Upsample: each dim becomes longer or shorter by itself.
//
// Element q of the result lies at place p(q) of x, which `coordinate_transformation_mode` says, and is a mean of the
// elements around it by weights that depend on p alone: y[q] = sum over t of w[q, t] x[clip(i[q] + t)]. Places and
// weights are known, so that a dim takes a gather and a product for each of its taps. Images whose rows and columns
// are resized as PyTorch does it take one operator, which may be split.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// What the attributes say, and of each dim that is resized from how many elements to how many.
struct Resizing {
  std::string mode, place, nearest;
  double cubic_a = -0.75, outside_value = 0;
  bool leaves_out = false;  // what lies outside of x, instead of its edge
  bool smooths = false;     // where a dim becomes shorter

  struct Dim {
    std::size_t dim = 0;
    std::int64_t from = 1, to = 1;
    double scale = 1, begin = 0, end = 1;  // begin and end: of the region of interest, in shares of x
  };
  std::vector<Dim> dims;
};

// ---- reading ----

void check_one_of(std::string_view attribute, const std::string& value,
                  std::initializer_list<const char*> known) {
  for (const char* k : known)
    if (value == k) return;
  throw error("attribute '{}={}' is not supported", attribute, printable(value));
}

/// Numbers of input `i`; none if it is left out or empty. In a short type 1.3 is another number, which would lead to
/// another size.
Numbers numbers_in(const OnnxNode& n, std::size_t i) {
  if (!n.has(i) || element_count(n.shape(i)) == 0) return {};
  const Numbers all = to_doubles(*n.constant(i));
  for (double x : all)
    if (size_of(n.precision()) < 4 && std::abs(x) * 4 != std::floor(std::abs(x) * 4))
      throw error("a scale of {} may be rounded, {} being short; export the model with sizes", x,
                  name_of(n.precision()));
  return all;
}

/// All sizes by one scale, so that x keeps its form: the smallest or largest of those that the sizes ask for.
void keep_aspect(Resizing& r, const std::string& policy) {
  check_one_of("keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"});
  if (policy == "stretch") return;
  const auto by_scale = [](const Resizing::Dim& a, const Resizing::Dim& b) { return a.scale < b.scale; };
  const double scale = (policy == "not_larger" ? std::ranges::min_element(r.dims, by_scale)
                                               : std::ranges::max_element(r.dims, by_scale))
                           ->scale;
  for (Resizing::Dim& d : r.dims) {
    if (!(scale * static_cast<double>(d.from) < static_cast<double>(limits::constant_elements)))
      throw error("a scale of {} is not supported", scale);
    d.scale = scale;
    d.to = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(d.from) + 0.5));
  }
}

/// `sizes` or `scales`, one for each dim that is named.
void read_sizes(OnnxNode& n, Resizing& r, const Numbers& scales, const List& sizes) {
  if (scales.empty() == sizes.empty()) throw error("should have either scales or sizes");
  if (std::max(scales.size(), sizes.size()) != r.dims.size())
    throw error("has {} scales or sizes for {} dims", std::max(scales.size(), sizes.size()), r.dims.size());
  for (std::size_t i = 0; i < r.dims.size(); ++i) {
    Resizing::Dim& d = r.dims[i];
    d.from = n.shape(0)[d.dim];
    d.scale = scales.empty() ? static_cast<double>(sizes[i]) / static_cast<double>(d.from) : scales[i];
    const double to = sizes.empty() ? std::floor(scales[i] * static_cast<double>(d.from)) : 0;
    if (!(d.scale > 0) || !(to <= static_cast<double>(limits::constant_elements)))
      throw error("a scale of {} is not supported", d.scale);
    d.to = sizes.empty() ? static_cast<std::int64_t>(to) : sizes[i];
  }
}

Resizing read_resizing(OnnxNode& n) {
  Resizing r;
  r.mode = n.text("mode", "nearest");
  r.place = n.text("coordinate_transformation_mode", n.opset() < 11 ? "asymmetric" : "half_pixel");
  r.nearest = n.text("nearest_mode", n.opset() < 11 ? "floor" : "round_prefer_floor");
  r.cubic_a = n.number("cubic_coeff_a", -0.75);
  r.outside_value = n.number("extrapolation_value", 0);
  r.leaves_out = n.integer("exclude_outside", 0) != 0;
  r.smooths = n.integer("antialias", 0) != 0;
  check_one_of("mode", r.mode, {"nearest", "linear", "cubic"});
  check_one_of("nearest_mode", r.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_one_of("coordinate_transformation_mode", r.place,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize"});
  const std::size_t rank = n.shape(0).size();
  List axes = n.integers("axes");
  if (!n.has_attribute("axes"))
    for (std::size_t d = 0; d < rank; ++d) axes.push_back(static_cast<std::int64_t>(d));
  for (std::int64_t a : axes) r.dims.push_back({.dim = static_cast<std::size_t>(n.dim(a, rank))});
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  const bool has_region = n.opset() >= 11;
  const std::size_t at_scales = has_region ? 2 : 1;
  read_sizes(n, r, numbers_in(n, at_scales),
             has_region && n.has(3) && element_count(n.shape(3)) > 0 ? n.integers_of(3) : List{});
  if (has_region && n.has(3)) keep_aspect(r, policy);
  if (r.place != "tf_crop_and_resize") return r;
  const Numbers region = numbers_in(n, 1);
  if (region.size() != 2 * r.dims.size())
    throw error("a region of {} numbers should be of two for each of {} dims", region.size(), r.dims.size());
  for (std::size_t i = 0; i < r.dims.size(); ++i) {
    r.dims[i].begin = region[i];
    r.dims[i].end = region[r.dims.size() + i];
  }
  return r;
}

// ---- places and weights ----

double place_as_said(const Resizing& r, const Resizing::Dim& d, double q) {
  const auto from = static_cast<double>(d.from);
  const double wide = d.scale * from;  // which `to` was rounded from
  const double centre = (q + 0.5) / d.scale - 0.5;
  if (r.place == "align_corners") return wide == 1 ? 0 : q * (from - 1) / (wide - 1);
  if (r.place == "asymmetric") return q / d.scale;
  if (r.place == "pytorch_half_pixel") return wide == 1 ? -0.5 : centre;
  if (r.place == "half_pixel_symmetric") return from / 2 * (1 - static_cast<double>(d.to) / wide) + centre;
  if (r.place == "half_pixel") return centre;
  const double along = (d.end - d.begin) * (from - 1);
  return d.begin * (from - 1) + (wide == 1 ? along / 2 : q * along / (wide - 1));
}

/// Where element q of the result lies in x.
double place_of(const Resizing& r, const Resizing::Dim& d, double q) {
  const double place = place_as_said(r, d, q);
  if (!(std::abs(place) < 1e12))
    throw error("a scale of {} leads to a place of {}, which is not supported", d.scale, place);
  return place;
}

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double linear_weight(double distance) { return std::max(1 - std::abs(distance), 0.0); }

std::int64_t nearest_of(double place, const std::string& how) {
  if (how == "floor") return static_cast<std::int64_t>(std::floor(place));
  if (how == "ceil") return static_cast<std::int64_t>(std::ceil(place));
  return static_cast<std::int64_t>(how == "round_prefer_ceil" ? std::floor(place + 0.5)
                                                              : std::ceil(place - 0.5));
}

/// Of a dim: for each tap where it lies for each element of the result, and what it weighs.
struct Taps {
  std::vector<List> places;
  std::vector<Numbers> weights;  // none where it is 1
  std::vector<bool> is_outside;  // of the result's elements: they are the value for these
};

Taps nearest_taps(const Resizing& r, const Resizing::Dim& d) {
  Taps taps{.places = {List{}}, .weights = {}, .is_outside = {}};
  for (std::int64_t q = 0; q < d.to; ++q) {
    const std::int64_t at = nearest_of(place_of(r, d, static_cast<double>(q)), r.nearest);
    taps.places[0].push_back(std::clamp<std::int64_t>(at, 0, d.from - 1));
  }
  return taps;
}

/// Weights are those of the distance to the place, which smoothing counts in elements of the result.
Taps weighted_taps(const Resizing& r, const Resizing::Dim& d) {
  const double shrink = r.smooths ? std::min(d.scale, 1.0) : 1;
  check_listed(d.to);
  if (!(shrink > 1e-6)) throw error("a scale of {} is not supported", d.scale);
  const double reach = (r.mode == "cubic" ? 2 : 1) / shrink;
  const auto before = static_cast<std::int64_t>(std::ceil(reach)) - 1;
  const auto count = static_cast<std::size_t>(2 * before + 2);
  if (static_cast<std::int64_t>(count) * d.to > limits::constant_elements)
    throw error("from {} to {} elements needs more than {} weights", d.from, d.to, limits::constant_elements);
  Taps taps{.places = std::vector<List>(count), .weights = std::vector<Numbers>(count), .is_outside = {}};
  for (std::int64_t q = 0; q < d.to; ++q) {
    const double place = place_of(r, d, static_cast<double>(q));
    const auto first = static_cast<std::int64_t>(std::floor(place)) - before;
    Numbers weights(count);
    double sum = 0;
    for (std::size_t t = 0; t < count; ++t) {
      const std::int64_t at = first + static_cast<std::int64_t>(t);
      const double distance = (static_cast<double>(at) - place) * shrink;
      weights[t] = r.mode == "cubic" ? cubic_weight(distance, r.cubic_a) : linear_weight(distance);
      if (r.leaves_out && (at < 0 || at >= d.from)) weights[t] = 0;
      taps.places[t].push_back(std::clamp<std::int64_t>(at, 0, d.from - 1));
      sum += weights[t];
    }
    const double share = (r.leaves_out || r.smooths) && sum != 0 ? 1 / sum : 1;
    for (std::size_t t = 0; t < count; ++t) taps.weights[t].push_back(weights[t] * share);
  }
  return taps;
}

Taps taps_of(const Resizing& r, const Resizing::Dim& d) {
  Taps taps = r.mode == "nearest" ? nearest_taps(r, d) : weighted_taps(r, d);
  if (r.place != "tf_crop_and_resize") return taps;
  for (std::int64_t q = 0; q < d.to; ++q) {
    const double place = place_of(r, d, static_cast<double>(q));
    taps.is_outside.push_back(place < 0 || place > static_cast<double>(d.from - 1));
  }
  return taps;
}

/// Whether all weights of a tap are 0.
bool is_idle(const Numbers& weights) {
  return std::ranges::all_of(weights, [](double w) { return w == 0; });
}

ValueId resized_along(OnnxNode& n, const Resizing& r, const Resizing::Dim& d, ValueId x) {
  const Taps taps = taps_of(r, d);
  const Type type = n.type_of(x);
  const Shape broad = along(d.dim, type.shape.size(), d.to);
  ValueId y;
  for (std::size_t t = 0; t < taps.places.size(); ++t) {
    if (!taps.weights.empty() && is_idle(taps.weights[t])) continue;
    ValueId one = gathered(n, x, d.dim, taps.places[t]);
    if (!taps.weights.empty()) one = n.call("mul", {one, numbers(n, {type.dtype, broad}, taps.weights[t])});
    y = y.is_valid() ? n.call("add", {y, one}) : one;
  }
  if (std::ranges::find(taps.is_outside, true) == taps.is_outside.end()) return y;
  Tensor outside({DType::boolean, broad});
  std::ranges::copy(taps.is_outside, outside.as<bool>().begin());
  return n.call("where",
                {n.constant(std::move(outside)), constant(n.builder(), type.dtype, r.outside_value), y});
}

// ---- images ----

/// The attributes of the operator for rows and columns, if it does what is asked.
std::optional<Attributes> as_of_images(OnnxNode& n, const Resizing& r) {
  if (n.shape(0).size() != 4 || r.smooths || r.leaves_out || r.mode == "cubic") return std::nullopt;
  List size{n.shape(0)[2], n.shape(0)[3]};
  bool is_exact = is_floating(n.type(0).dtype), has_one = false;
  for (const Resizing::Dim& d : r.dims) {
    if (d.dim < 2 && (d.to != d.from || d.scale != 1)) return std::nullopt;
    if (d.dim < 2) continue;
    size[d.dim - 2] = d.to;
    is_exact = is_exact && d.scale * static_cast<double>(d.from) == static_cast<double>(d.to);
    has_one = has_one || d.to == 1;
  }
  if (!is_exact) return std::nullopt;
  if (r.mode == "nearest" && r.place == "asymmetric" && r.nearest == "floor")
    return Attributes{{"mode", std::string("nearest")}, {"size", size}};
  const bool is_halved = r.place == "half_pixel" || (r.place == "pytorch_half_pixel" && !has_one);
  if (r.mode == "nearest" || (!is_halved && r.place != "align_corners")) return std::nullopt;
  Attributes out{{"mode", std::string("bilinear")}, {"size", size}};
  if (!is_halved) out.set("align_corners", true);
  return out;
}

void resize_as(OnnxNode& n, const Resizing& r) {
  for (const Resizing::Dim& d : r.dims)
    if (d.to < 1 || d.to > limits::constant_elements)
      throw error("dim {} of {} elements cannot become {}", d.dim, d.from, d.to);
  if (const auto attributes = as_of_images(n, r)) return n.give(n.main("resize2d", {n.in(0)}, *attributes));
  ValueId y = n.in(0);
  for (const Resizing::Dim& d : r.dims) {
    const bool is_whole = d.begin == 0 && d.end == 1;
    if (d.to != d.from || std::abs(d.scale - 1) > 1e-9 || !is_whole) y = resized_along(n, r, d, y);
  }
  n.give(y);
}

void resize(OnnxNode& n) { resize_as(n, read_resizing(n)); }

/// By scales, an attribute before operator set 9.
void upsample(OnnxNode& n) {
  Resizing r;
  r.mode = n.text("mode", "nearest");
  check_one_of("mode", r.mode, {"nearest", "linear"});
  r.place = "asymmetric";
  r.nearest = "floor";
  for (std::size_t d = 0; d < n.shape(0).size(); ++d) r.dims.push_back({.dim = d});
  read_sizes(n, r, numbers_in(n, 1), {});
  resize_as(n, r);
}

}  // namespace

std::vector<Conversion> resizing() { return {{"Resize", resize}, {"Upsample", upsample}}; }

}  // namespace shardwright::onnx_operators
