// ONNX operators that convolve: Conv, ConvTranspose, Col2Im, CausalConvWithState.
//
// A kernel of three dims is one of two for each of its places along the first: y[d] = sum over t of conv(x[d s + t], w[t]).

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/windows.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

Attributes with_groups(Attributes attributes, std::int64_t groups) {
  if (groups != 1) attributes.set("groups", groups);
  return attributes;
}

// ---- one dim before the two ----

/// [b, c, d, h, w] as [b, d, c, h, w], which makes images [b d, c, h, w].
ValueId planes_of(OnnxNode& n, ValueId x) { return transposed(n, x, {0, 2, 1, 3, 4}); }
ValueId images_of(OnnxNode& n, ValueId planes) {
  const Shape s = n.type_of(planes).shape;
  return reshaped(n, planes, {s[0] * s[1], s[2], s[3], s[4]});
}
ValueId planes_of_images(OnnxNode& n, ValueId images, std::int64_t batch) {
  const Shape s = n.type_of(images).shape;
  return reshaped(n, images, {batch, s[0] / batch, s[1], s[2], s[3]});
}

/// Place `t` of the kernel's first dim: [o, i, h, w].
ValueId tap(OnnxNode& n, ValueId weight, std::int64_t t) {
  const Shape w = n.type_of(weight).shape;
  return reshaped(n, part(n, weight, 2, t, t + 1), {w[0], w[1], w[3], w[4]});
}

ValueId sum_of_taps(OnnxNode& n, std::vector<ValueId> taps) {
  return taps.size() == 1 ? taps.front() : n.call("sum", std::move(taps));
}

ValueId convolved_in_planes(OnnxNode& n, ValueId x, ValueId weight, const Window& window,
                            std::int64_t groups) {
  const std::int64_t batch = n.type_of(x).shape[0], step = window.strides[0];
  const std::int64_t out = window.out(0, n.type_of(x).shape[2]);
  const ValueId planes = padded(n, planes_of(n, x), 1, window.before(0), window.after(0));
  std::vector<ValueId> taps;
  for (std::int64_t t = 0; t < window.kernel[0]; ++t) {
    const std::int64_t first = t * window.dilations[0];
    const ValueId read = images_of(n, part(n, planes, 1, first, first + (out - 1) * step + 1, step));
    taps.push_back(
        n.call("conv2d", {read, tap(n, weight, t)}, with_groups(window.attributes(1, 2, false), groups)));
  }
  return planes_of(n, planes_of_images(n, sum_of_taps(n, std::move(taps)), batch));
}

/// The dims of the weight, input 1, behind the two of channels. Throws: Error if the node says others.
List kernel_of_weight(const OnnxNode& n) {
  const Shape &x = n.shape(0), &w = n.shape(1);
  if (w.size() != x.size()) throw error("of {} by a weight of {} does not exist", to_text(x), to_text(w));
  const List kernel(w.begin() + std::min<std::ptrdiff_t>(2, std::ssize(w)), w.end());
  if (n.integers("kernel_shape", kernel) != kernel)
    throw error("kernel_shape {} is not that of the weight {}", to_text(n.integers("kernel_shape")),
                to_text(w));
  return kernel;
}

void conv(OnnxNode& n) {
  const Shape x = n.shape(0);
  const Window window(n, x, kernel_of_weight(n));
  const std::int64_t groups = n.integer("group", 1);
  ValueId y;
  if (window.dims() == 3) {
    y = convolved_in_planes(n, n.in(0), n.in(1), window, groups);
  } else {
    Attributes attributes = window.attributes(0, window.dims() == 2 ? 1 : Window::none, false);
    y = n.main("conv2d", {with_two(n, n.in(0)), with_two(n, n.in(1))},
               with_groups(std::move(attributes), groups));
    y = with_dims(n, y, x.size());
  }
  n.give(n.has(2) ? n.call("add", {y, per_channel(n, n.in(2), x.size())}) : y);
}

// ---- the other way ----

/// Where tap t of the kernel puts plane d: at d s + t, of which pads are cut off.
ValueId transposed_in_planes(OnnxNode& n, ValueId x, ValueId weight, const Window& window,
                             const Attributes& of_two, std::int64_t size) {
  const Shape shape = n.type_of(x).shape;
  const ValueId images = images_of(n, planes_of(n, x));
  const std::int64_t all = (shape[2] - 1) * window.strides[0] + window.reach(0);
  std::vector<ValueId> taps;
  for (std::int64_t t = 0; t < window.kernel[0]; ++t) {
    const ValueId y =
        planes_of_images(n, n.call("conv_transpose2d", {images, tap(n, weight, t)}, of_two), shape[0]);
    const std::int64_t before = t * window.dilations[0];
    taps.push_back(n.call("pad", {y},
                          {{"dims", List{1}},
                           {"before", List{before}},
                           {"after", List{window.reach(0) - 1 - before}},
                           {"gaps", List{window.strides[0] - 1}}}));
  }
  const std::int64_t first = window.before(0);
  ValueId y = sum_of_taps(n, std::move(taps));
  y = part(n, y, 1, first, std::min(all, first + size));
  return planes_of(n, padded(n, y, 1, 0, size - n.type_of(y).shape[1]));
}

}  // namespace

ValueId transposed_convolution(OnnxNode& n, ValueId x, ValueId weight, const Window& window,
                               std::int64_t groups, List size) {
  const Shape shape = n.type_of(x).shape;
  const std::size_t first = window.dims() == 3 ? 1 : 0;
  const std::size_t second = window.dims() == 1 ? Window::none : first + 1;
  List reached;  // what no place of the kernel reaches is 0
  for (std::size_t d = first; d < window.dims(); ++d) {
    const std::int64_t most =
        shape[2 + d] * window.strides[d] + window.reach(d) - 1 - window.before(d) - window.after(d);
    reached.push_back(std::min(size[d], most));
  }
  Attributes attributes = with_groups(window.attributes(first, second, false), groups);
  attributes.set("size", List{reached[0], second == Window::none ? 1 : reached[1]});
  ValueId y;
  if (window.dims() == 3)
    y = transposed_in_planes(n, x, weight, window, attributes, size[0]);
  else
    y = with_dims(n, n.main("conv_transpose2d", {with_two(n, x), with_two(n, weight)}, std::move(attributes)),
                  shape.size());
  for (std::size_t d = first; d < window.dims(); ++d)
    y = padded(n, y, 2 + d, 0, size[d] - reached[d - first]);
  return y;
}

namespace {

/// Sizes of the result, as `output_shape` says or as pads do; the pads that lead there.
List sizes_of_transposed(OnnxNode& n, Window& window, const Shape& x) {
  const std::size_t dims = window.dims();
  const std::string auto_pad = n.text("auto_pad", "NOTSET");
  const List more = n.integers("output_padding", List(dims, 0));
  List sizes = n.integers("output_shape");
  if (more.size() != dims || (!sizes.empty() && sizes.size() != dims))
    throw error("output_padding and output_shape should be of {} dims", dims);
  const bool is_same = auto_pad.starts_with("SAME"), is_said = !sizes.empty();
  for (std::size_t d = 0; d < dims; ++d) {
    if (more[d] < 0 || more[d] > limits::attribute)
      throw error("output_padding={} is not supported", to_text(more));
    const std::int64_t full =
        element_count(Shape{window.strides[d], x[2 + d] - 1}) + more[d] + window.reach(d);
    check_limits({full}, 1);
    if (is_same && !is_said) sizes.push_back(x[2 + d] * window.strides[d]);
    if (!is_same && !is_said) sizes.push_back(full - window.pads[d] - window.pads[dims + d]);
    if (sizes[d] < 1 || sizes[d] > limits::elements)
      throw error("pads leave {} of dim {} of {}", sizes[d], 2 + d, to_text(x));
    if (!is_same && !is_said) continue;
    const std::int64_t all = std::max<std::int64_t>(full - sizes[d], 0);
    window.pads[d] = auto_pad == "SAME_UPPER" ? all / 2 : all - all / 2;
    window.pads[dims + d] = all - window.pads[d];
  }
  return sizes;
}

void conv_transpose(OnnxNode& n) {
  const Shape x = n.shape(0);
  Window window(n, x, kernel_of_weight(n));
  const List sizes = sizes_of_transposed(n, window, x);
  const ValueId y = transposed_convolution(n, n.in(0), n.in(1), window, n.integer("group", 1), sizes);
  n.give(n.has(2) ? n.call("add", {y, per_channel(n, n.in(2), x.size())}) : y);
}

// ---- blocks of images ----

/// Blocks [b, c k..., places] added up where they lie in an image: by a kernel that moves element i of a block to place i.
void images_of_columns(OnnxNode& n) {
  const Shape x = n.shape(0);
  const List size = n.integers_of(1), block = n.integers_of(2);
  if (x.size() != 3) throw error("of {} does not exist; it has 3 dims", to_text(x));
  Shape image{1, 1};
  image.insert(image.end(), size.begin(), size.end());
  check_limits(image, 1);
  const Window window(n, image, block);
  const std::int64_t taps = element_count(block);
  Shape places{x[0] * (x[1] / taps), taps};
  for (std::size_t d = 0; d < window.dims(); ++d) places.push_back(window.out(d, size[d]));
  if (x[1] % taps != 0 || element_count(places) != element_count(x))
    throw error("blocks of {} in {} are {} and not {}", to_text(block), to_text(size), to_text(places),
                to_text(x));
  if (taps * taps > limits::constant_elements) throw error("blocks of {} elements are not supported", taps);
  std::vector<double> one(static_cast<std::size_t>(taps * taps), 0.0);
  for (std::int64_t t = 0; t < taps; ++t) one[static_cast<std::size_t>(t * taps + t)] = 1;
  Shape kernel{taps, 1};
  kernel.insert(kernel.end(), block.begin(), block.end());
  const ValueId weight = numbers(n, {n.type(0).dtype, kernel}, one);
  const ValueId y = transposed_convolution(n, reshaped(n, n.in(0), places), weight, window, 1, size);
  Shape shape{x[0], x[1] / taps};
  shape.insert(shape.end(), size.begin(), size.end());
  n.give(reshaped(n, y, shape));
}

// ---- a convolution that goes on ----

/// Of a sequence [b, c, l], each channel by its own kernel, with the last k - 1 elements of what came before.
void causal_conv(OnnxNode& n) {
  const Shape x = n.shape(0), w = n.shape(1);
  if (x.size() != 3 || w.size() != 3 || w[0] != x[1] || w[1] != 1)
    throw error("of {} by a weight of {} does not exist", to_text(x), to_text(w));
  const std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    throw error("attribute 'activation={}' is not supported", printable(activation));
  const std::int64_t before = w[2] - 1;
  ValueId all = n.in(0);
  if (n.has(3))
    all = joined(n, {n.in(3), all}, 2);
  else
    all = padded(n, all, 2, before, 0);
  ValueId y = n.main("conv2d", {with_two(n, all), with_two(n, n.in(1))}, with_groups({}, x[1]));
  y = with_dims(n, y, 3);
  if (n.has(2)) y = n.call("add", {y, per_channel(n, n.in(2), 3)});
  n.give(activation == "none" ? y : n.call("silu", {y}));
  const std::int64_t length = n.type_of(all).shape[2];
  if (before > 0 && n.gives(1)) n.give(part(n, all, 2, length - before, length));
}

}  // namespace

std::vector<Conversion> convolutions() {
  return {{"CausalConvWithState", causal_conv, false},
          {"Col2Im", images_of_columns, false},
          {"Conv", conv, false},
          {"ConvTranspose", conv_transpose, false}};
}

}  // namespace shardwright::onnx_operators
