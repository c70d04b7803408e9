// Kernels and windows that slide over the one to three dims behind the channels. The operators of the graph slide over
// two: one becomes two, and of three the first is taken by itself.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {

struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;  // pads: all before, then all after
  std::vector<std::int64_t>
      rounded;  // how much more is needed behind each dim so that ceil_mode's windows fit

  /// Of a node whose kernel slides over all of x's dims behind the channels.
  Window(const OnnxNode& n, const Shape& x, std::vector<std::int64_t> of_kernel)
      : kernel(std::move(of_kernel)) {
    read(n, x);
    place(n.text("auto_pad", "NOTSET"), x);
  }

  std::size_t dims() const { return kernel.size(); }
  std::int64_t before(std::size_t d) const { return pads[d]; }
  std::int64_t after(std::size_t d) const { return pads[dims() + d] + rounded[d]; }
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  /// Output positions along dim d of `size`.
  std::int64_t out(std::size_t d, std::int64_t size) const {
    const std::int64_t places = size + before(d) + after(d) - reach(d);
    if (places < 0)
      throw error("a kernel that reaches over {} is larger than {} with its pads", reach(d), size);
    return places / strides[d] + 1;
  }

  /// With ceil_mode a window may begin where there is not all of it left, but not behind x.
  void round_up(const Shape& x) {
    for (std::size_t d = 0; d < dims(); ++d) {
      const std::int64_t inside = x[2 + d] + before(d), all = inside + pads[dims() + d] - reach(d);
      if (all < 0) continue;
      std::int64_t last = (all + strides[d] - 1) / strides[d];
      if (last * strides[d] >= inside) --last;
      const std::int64_t needed = last * strides[d] + reach(d) - inside;
      rounded[d] = std::max<std::int64_t>(needed, 0) - pads[dims() + d];
    }
  }

  /// The attributes of the operator that slides over two dims: `first` and `second`, or nothing for one that is `none`.
  static constexpr std::size_t none = 99;
  Attributes attributes(std::size_t first, std::size_t second, bool has_kernel) const {
    Attributes out;
    const auto pair = [&](const std::vector<std::int64_t>& list) {
      return std::vector<std::int64_t>{list[first], second == none ? 1 : list[second]};
    };
    const std::int64_t left = second == none ? 0 : before(second), right = second == none ? 0 : after(second);
    if (has_kernel) out.set("kernel", pair(kernel));
    const auto set_unless = [&](std::int64_t usual, const char* name, const std::vector<std::int64_t>& list) {
      if (std::ranges::count(list, usual) != std::ssize(list)) out.set(name, list);
    };
    set_unless(1, "strides", pair(strides));
    set_unless(1, "dilations", pair(dilations));
    set_unless(0, "pads", {before(first), left, after(first), right});
    return out;
  }

 private:
  void read(const OnnxNode& n, const Shape& x) {
    const std::size_t dims = x.size() < 2 ? 0 : x.size() - 2;
    if (dims < 1 || dims > 3)
      throw error("of {} is not supported; it has one to three dims behind the channels", to_text(x));
    strides = n.integers("strides", std::vector<std::int64_t>(dims, 1));
    dilations = n.integers("dilations", std::vector<std::int64_t>(dims, 1));
    pads = n.integers("pads", std::vector<std::int64_t>(2 * dims, 0));
    rounded.assign(dims, 0);
    if (kernel.size() != dims || strides.size() != dims || dilations.size() != dims ||
        pads.size() != 2 * dims)
      throw error("kernel, strides, dilations and pads should be of {} dims", dims);
    constexpr std::int64_t most_planes = 512;  // each of which is a convolution of two dims
    if (dims == 3 && kernel[0] > most_planes)
      throw error("a kernel of {} is not supported; the first of three dims is at most {}", to_text(kernel),
                  most_planes);
    for (const auto* list : {&kernel, &strides, &dilations, &pads})
      for (std::int64_t v : *list)
        if (v < (list == &pads ? 0 : 1) || v > limits::attribute)
          throw error("a kernel size, stride, dilation or pad of {} is not supported", v);
  }

  void place(const std::string& auto_pad, const Shape& x) {
    if (auto_pad == "NOTSET") return;
    if (auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
      throw error("attribute 'auto_pad={}' is not supported", printable(auto_pad));
    std::ranges::fill(pads, 0);
    if (auto_pad == "VALID") return;
    for (std::size_t d = 0; d < dims(); ++d) {
      const std::int64_t out = (x[2 + d] + strides[d] - 1) / strides[d];
      const std::int64_t all = std::max<std::int64_t>((out - 1) * strides[d] + reach(d) - x[2 + d], 0);
      pads[d] = auto_pad == "SAME_UPPER" ? all / 2 : all - all / 2;
      pads[dims() + d] = all - pads[d];
    }
  }
};

/// [b, c, l] as [b, c, l, 1], and back.
inline ValueId with_two(OnnxNode& n, ValueId x) {
  Shape shape = n.type_of(x).shape;
  if (shape.size() == 3) shape.push_back(1);
  return reshaped(n, x, shape);
}
inline ValueId with_dims(OnnxNode& n, ValueId y, std::size_t rank) {
  Shape shape = n.type_of(y).shape;
  shape.resize(rank);
  return reshaped(n, y, shape);
}

/// x under windows, each of whose dims is taken by itself: of three first the two last. The last call is the node's.
ValueId pooled(OnnxNode& n, ValueId x, const Window& window, std::string_view op, const Attributes& more);

/// The images whose convolution, of that window, reads x: x [b, o, d...], weight [o, i, k...] -> [b, i, size...].
ValueId transposed_convolution(OnnxNode& n, ValueId x, ValueId weight, const Window& window,
                               std::int64_t groups, std::vector<std::int64_t> size);

}  // namespace shardwright::onnx_operators
