// Operators whose kernel slides over the two last dims of [batch, channels, rows, columns]: convolution, pooling.
//
// Attributes: strides, dilations [2], pads [top, left, bottom, right]. A part of the outputs reads a window of the
// inputs and a part of the inputs is read by a window of the outputs; rules say so, and kernels find by their loop
// box where the window that they got begins.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "shardwright/ops/types.h"

namespace shardwright::ops {

/// One spatial dim: output position q and tap k meet at input position q stride + k dilation - before.
struct Spatial {
  std::int64_t stride = 1, dilation = 1, before = 0, after = 0, kernel = 1;

  std::int64_t reach() const { return (kernel - 1) * dilation; }
  /// Output positions; 0 where the kernel is larger than the input with its pads.
  std::int64_t out(std::int64_t in) const {
    const std::int64_t places = in + before + after - reach();
    return places < 1 ? 0 : (places - 1) / stride + 1;
  }
  /// What outputs read of the input, and what inputs are read by of the output.
  std::string reads() const { return fmt::format("~({} 1 {} {})", stride, -before, reach() - before); }
  std::string is_read() const { return fmt::format("~(1 {} {} {})", stride, first_read(), before); }
  /// Pads that are larger than the kernel would begin behind the start of an output that is not split.
  std::int64_t first_read() const { return std::min<std::int64_t>(before - reach(), 0); }
};

/// The largest number of an attribute, and size of a kernel: sums and products of two of them fit in 64 bits.
constexpr std::int64_t most_of_window = std::int64_t{1} << 31;

/// The numbers of attribute `name`, or `otherwise` for each if it is not there. Allocates nothing.
template <std::size_t count>
std::array<std::int64_t, count> numbers(const Attributes& a, const char* name, std::int64_t least,
                                        std::int64_t otherwise) {
  std::array<std::int64_t, count> out;
  out.fill(otherwise);
  if (const Attribute* given = a.find(name)) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(given);
    if (!list || list->size() != count)
      throw error("{}={} but must be {} integers", name, to_text(*given), count);
    std::copy(list->begin(), list->end(), out.begin());
  }
  for (std::int64_t n : out)
    if (n < least || n > most_of_window)
      throw error("{} has {} but each should be from {} to {}", name, n, least, most_of_window);
  return out;
}

inline std::array<Spatial, 2> spatial_of(const Attributes& a, std::int64_t kh, std::int64_t kw) {
  const auto strides = numbers<2>(a, "strides", 1, 1), dilations = numbers<2>(a, "dilations", 1, 1);
  const auto pads = numbers<4>(a, "pads", 0, 0);  // top, left, bottom, right
  if (kh < 1 || kw < 1 || kh > most_of_window || kw > most_of_window)
    throw error("a kernel of {} x {} should be from 1 to {} each way", kh, kw, most_of_window);
  return {Spatial{strides[0], dilations[0], pads[0], pads[2], kh},
          Spatial{strides[1], dilations[1], pads[1], pads[3], kw}};
}

inline void check_images(const Call& call, std::size_t operand, const char* what) {
  if (call.operands[operand].shape.size() != 4)
    throw error("operand {} is {} but must be {}", operand, to_text(call.operands[operand]), what);
}

/// Attribute `size` of a gradient: the spatial size of what the window slid over to give dims 2 and 3 of `out`.
inline std::array<std::int64_t, 2> size_of_input(const Call& call, const std::array<Spatial, 2>& spatial,
                                                 const Shape& out) {
  const auto size = numbers<2>(call.attributes, "size", 1, 1);
  for (std::size_t d = 0; d < 2; ++d)
    if (spatial[d].out(size[d]) != out[2 + d])
      throw error("size={} does not give the {} of dim {}", size[d], out[2 + d], 2 + d);
  return size;
}

/// A spatial dim on one rank: output position q (local) and tap k meet at input position
/// q stride + k dilation + shift (local), if that lies in [0, in).
struct Local {
  std::int64_t stride, dilation, kernel, in, out, shift;

  std::int64_t input(std::int64_t q, std::int64_t k) const { return q * stride + k * dilation + shift; }
  /// Output positions that tap `k` joins to input positions in [begin, end).
  Range outputs(std::int64_t k, std::int64_t begin, std::int64_t end) const {
    const auto first = [&](std::int64_t position) {  // the first output whose input is at least `position`
      const std::int64_t distance = position - input(0, k);
      return distance <= 0 ? 0 : std::min((distance + stride - 1) / stride, out);
    };
    const std::int64_t from = first(begin);
    return {from, std::max(from, first(end))};
  }
};

/// First position of a window, as layouts cut it.
inline std::int64_t window_begin(std::int64_t part_begin, std::int64_t num, std::int64_t den,
                                 std::int64_t low) {
  const std::int64_t n = part_begin * num + low;
  return n <= 0 ? 0 : (n + den - 1) / den;
}

/// Where rank's parts lie: `out_begin` and `in_begin` are global positions of the first local ones.
inline Local local(const Spatial& s, std::int64_t in, std::int64_t out, std::int64_t in_begin,
                   std::int64_t out_begin) {
  return {s.stride, s.dilation, s.kernel, in, out, out_begin * s.stride - s.before - in_begin};
}

/// The first output that reads this rank's part of the inputs.
inline std::int64_t first_output(const Spatial& s, const KernelCall& call, const char* loop) {
  return window_begin(call.loop(loop).offset, 1, s.stride, s.first_read());
}

/// The part of outputs [q, ...) is this rank's and its inputs are a window, or the other way round.
inline Local with_window_of_inputs(const Spatial& s, const KernelCall& call, const char* loop,
                                   std::int64_t in) {
  const LoopBox::Part& part = call.loop(loop);
  return local(s, in, part.extent, window_begin(part.offset, s.stride, 1, -s.before), part.offset);
}
inline Local with_window_of_outputs(const Spatial& s, const KernelCall& call, const char* loop,
                                    std::int64_t out) {
  const LoopBox::Part& part = call.loop(loop);
  return local(s, part.extent, out, part.offset, first_output(s, call, loop));
}

/// Of a call in PyTorch: `shift` of rows and columns as in Local, and how many of each come `out`.
inline Attributes window_of_inputs(const KernelCall& call, const std::array<Spatial, 2>& spatial,
                                   const Shape& in) {
  const Local rows = with_window_of_inputs(spatial[0], call, "h", in[2]);
  const Local columns = with_window_of_inputs(spatial[1], call, "w", in[3]);
  return {{"shift", std::vector<std::int64_t>{rows.shift, columns.shift}},
          {"out", std::vector<std::int64_t>{rows.out, columns.out}}};
}
inline Attributes window_of_outputs(const KernelCall& call, const std::array<Spatial, 2>& spatial,
                                    const Shape& out) {
  const Local rows = with_window_of_outputs(spatial[0], call, "h", out[2]);
  const Local columns = with_window_of_outputs(spatial[1], call, "w", out[3]);
  return {{"shift", std::vector<std::int64_t>{rows.shift, columns.shift}}};
}

/// In PyTorch: the image as windows read it.
inline constexpr const char* image_in_torch = R"(
def read_image(x, kernel, strides, dilations, shift, out, value=0.0):
    """What `out` windows read: output q and tap k at q stride + k dilation + shift of x, `value` where that is outside."""
    ends = [(out[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + shift[d] - x.shape[2 + d] for d in (0, 1)]
    return F.pad(x, (-shift[1], ends[1], -shift[0], ends[0]), value=value)


def padded_image(x, kernel, strides, dilations, shift, out):
    """The same, or x and how wide a convolution pads it on both sides, where that gives as many outputs."""
    padding = [-shift[0], -shift[1]]
    ends = [x.shape[2 + d] + 2 * padding[d] - (kernel[d] - 1) * dilations[d] - 1 for d in (0, 1)]
    if min(padding) >= 0 and all(ends[d] // strides[d] + 1 == out[d] for d in (0, 1)):
        return x, padding
    return read_image(x, kernel, strides, dilations, shift, out), [0, 0]


def unread(shape, like):
    """Of that shape, whose elements nobody reads, in the order of those of `like`."""
    order = torch.channels_last if like.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=order)
)";

inline constexpr const char* image_in_jax = R"(
def image_padding(x, kernel, strides, dilations, shift, out):
    """Of rows and columns before and behind x: output q and tap k read q stride + k dilation + shift."""
    ends = [(out[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + shift[d] - x.shape[2 + d] for d in (0, 1)]
    return [(-shift[0], ends[0]), (-shift[1], ends[1])]
)";

inline const std::string windows_in_jax = std::string(image_in_jax) + R"(
def windows(x, kernel, strides, dilations, shift, out, value):
    """[taps, batch, channels, rows, columns]: what each tap reads, `value` outside of x."""
    padding = image_padding(x, kernel, strides, dilations, shift, out)
    x = lax.pad(x, jnp.array(value, x.dtype), [(0, 0, 0), (0, 0, 0), *((*ends, 0) for ends in padding)])
    first = [(i * dilations[0], j * dilations[1]) for i in range(kernel[0]) for j in range(kernel[1])]
    reach = [(out[d] - 1) * strides[d] + 1 for d in (0, 1)]
    return jnp.stack([x[:, :, i : i + reach[0] : strides[0], j : j + reach[1] : strides[1]] for i, j in first])
)";

/// The window of pooling.
inline std::array<Spatial, 2> window_of(const Attributes& a) {
  const auto kernel = numbers<2>(a, "kernel", 1, 1);
  return spatial_of(a, kernel[0], kernel[1]);
}

/// The outputs that touch this rank's part of the inputs, and the inputs that these read: the part begins at
/// `inside` of them.
struct Touched {
  Local reads;
  std::int64_t inside;
};
inline Touched touched(const Spatial& s, const KernelCall& call, const char* loop, std::int64_t in,
                       std::int64_t out) {
  const LoopBox::Part& part = call.loop(loop);
  const std::int64_t begin = window_begin(part.offset, 1, 1, -s.reach());
  return {local(s, in, out, begin, first_output(s, call, loop)), part.offset - begin};
}

/// How many inputs output q (global) counts in a dim of size `in`.
inline std::int64_t counted(const Spatial& s, std::int64_t q, std::int64_t in, bool pads) {
  if (pads) return s.kernel;
  std::int64_t n = 0;
  for (std::int64_t k = 0; k < s.kernel; ++k) {
    const std::int64_t p = q * s.stride + k * s.dilation - s.before;
    n += p >= 0 && p < in;
  }
  return n;
}

}  // namespace shardwright::ops
