// ONNX operators that lay elements out anew: blocks of an image into channels and back, around its edges, to a size.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

// ---- blocks ----

std::int64_t block_size(const OnnxNode& n) {
  const std::int64_t block = n.integer("blocksize", 0);
  if (n.shape(0).size() != 4 || block < 1 || block > limits::attribute)
    throw error("blocks of {} in {} do not exist", block, to_text(n.shape(0)));
  return block;
}

/// Whether channels are (channel, block row, block column), or have the channel last.
bool has_channels_first(const OnnxNode& n) {
  const std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw error("attribute 'mode={}' is not supported", printable(mode));
  return mode == "CRD";
}

/// Channels become blocks of the image.
void depth_to_space(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t b = block_size(n), channels = x[1] / (b * b);
  const bool is_first = has_channels_first(n);
  if (x[1] % (b * b) != 0) throw error("{} channels are not blocks of {} x {}", x[1], b, b);
  const Shape parts =
      is_first ? Shape{x[0], channels, b, b, x[2], x[3]} : Shape{x[0], b, b, channels, x[2], x[3]};
  const ValueId y =
      transposed(n, reshaped(n, n.in(0), parts), is_first ? List{0, 1, 4, 2, 5, 3} : List{0, 3, 4, 1, 5, 2});
  n.give(reshaped(n, y, {x[0], channels, x[2] * b, x[3] * b}));
}

void space_to_depth(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t b = block_size(n);
  const bool is_first = has_channels_first(n);
  if (x[2] % b != 0 || x[3] % b != 0) throw error("{} has no blocks of {} x {}", to_text(x), b, b);
  const ValueId parts = reshaped(n, n.in(0), {x[0], x[1], x[2] / b, b, x[3] / b, b});
  const ValueId y = transposed(n, parts, is_first ? List{0, 1, 3, 5, 2, 4} : List{0, 3, 5, 1, 2, 4});
  n.give(reshaped(n, y, {x[0], x[1] * b * b, x[2] / b, x[3] / b}));
}

// ---- edges ----

/// Before and behind each dim.
struct Edges {
  List before, after;
};

Edges edges_of(const OnnxNode& n) {
  const List pads = n.integers_of(1, "pads");
  const std::size_t rank = n.shape(0).size();
  List axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) axes = n.integers_of(3);
  if (pads.size() != 2 * axes.size()) throw error("has {} pads for {} dims", pads.size(), axes.size());
  Edges e{List(rank, 0), List(rank, 0)};
  for (std::int64_t p : pads)
    if (p < -limits::attribute || p > limits::attribute) throw error("a pad of {} is not supported", p);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(n.dim(axes[i], rank));
    e.before[d] = pads[i];
    e.after[d] = pads[axes.size() + i];
  }
  return e;
}

/// Which element of `size` stands at `at`, which may lie outside: at the edge, mirrored at it, or round it.
std::int64_t element_at(std::int64_t at, std::int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<std::int64_t>(at, 0, size - 1);
  if (mode == "wrap") return (at % size + size) % size;
  if (size == 1) return 0;
  const std::int64_t round = 2 * (size - 1), place = (at % round + round) % round;
  return place < size ? place : round - place;
}

ValueId padded_by_elements(OnnxNode& n, ValueId x, const Edges& e, const std::string& mode) {
  for (std::size_t d = 0; d < e.before.size(); ++d) {
    if (e.before[d] == 0 && e.after[d] == 0) continue;
    const std::int64_t size = n.type_of(x).shape[d], end = size + e.after[d];
    if (end + e.before[d] < 1 || end + e.before[d] > limits::constant_elements)
      throw error("pads of {} and {} leave {} of {} elements", e.before[d], e.after[d], end + e.before[d],
                  size);
    List places;
    for (std::int64_t at = -e.before[d]; at < end; ++at) places.push_back(element_at(at, size, mode));
    x = gathered(n, x, d, places);
  }
  return x;
}

/// What is put around, where the operator cannot: a number that is computed, or is not finite.
ValueId around(OnnxNode& n, ValueId x, const Edges& e) {
  const auto with_edges = [&](ValueId v) {
    return n.call("pad", {v}, {{"before", e.before}, {"after", e.after}});
  };
  const ValueId ones =
      n.call("fill", {},
             {{"shape", n.type_of(x).shape}, {"value", 1.0}, {"dtype", std::string(name_of(DType::i32))}});
  const ValueId is_inside = n.call("greater", {with_edges(ones), constant(n.builder(), DType::i32, 0)});
  return n.main("where", {is_inside, with_edges(x), reshaped(n, n.untrained(2), {})});
}

/// Pads below 0 cut off.
void pad(OnnxNode& n) {
  const std::string mode = n.text("mode", "constant");
  double value = n.number("value", 0);
  const bool is_computed = n.has(2) && n.is_computed(2);
  if (n.has(2) && !is_computed) value = n.number_of(2);
  Edges e = edges_of(n);
  if (mode == "edge" || mode == "reflect" || mode == "wrap")
    return n.give(padded_by_elements(n, n.in(0), e, mode));
  if (mode != "constant") throw error("attribute 'mode={}' is not supported", printable(mode));
  ValueId x = n.in(0);
  bool is_more = false;
  for (std::size_t d = 0; d < e.before.size(); ++d) {
    const std::int64_t size = n.type_of(x).shape[d];
    const std::int64_t first = std::max<std::int64_t>(-e.before[d], 0),
                       last = size + std::min<std::int64_t>(e.after[d], 0);
    if (last <= first) throw error("pads of {} and {} leave nothing of {}", e.before[d], e.after[d], size);
    x = part(n, x, d, first, last);
    e.before[d] = std::max<std::int64_t>(e.before[d], 0);
    e.after[d] = std::max<std::int64_t>(e.after[d], 0);
    is_more = is_more || e.before[d] > 0 || e.after[d] > 0;
  }
  if (is_more && (is_computed || !std::isfinite(value))) return n.give(around(n, x, e));
  n.give(is_more ? n.main("pad", {x}, {{"before", e.before}, {"after", e.after}, {"value", value}}) : x);
}

/// The middle of a dim that is longer, zeros on both sides of one that is shorter.
void center_crop_pad(OnnxNode& n) {
  const List sizes = n.integers_of(1);
  const std::size_t rank = n.shape(0).size();
  List axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.integers("axes", axes);
  if (sizes.size() != axes.size()) throw error("has {} sizes for {} dims", sizes.size(), axes.size());
  ValueId x = n.in(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(n.dim(axes[i], rank));
    const std::int64_t size = n.type_of(x).shape[d], first = std::abs(size - sizes[i]) / 2;
    if (sizes[i] < 1 || sizes[i] > limits::attribute) throw error("a size of {} is not supported", sizes[i]);
    x = size > sizes[i] ? part(n, x, d, first, first + sizes[i])
                        : padded(n, x, d, first, sizes[i] - size - first);
  }
  n.give(x);
}

}  // namespace

std::vector<Conversion> rearranged() {
  return {{"CenterCropPad", center_crop_pad},
          {"DepthToSpace", depth_to_space},
          {"Pad", pad},
          {"SpaceToDepth", space_to_depth}};
}

}  // namespace shardwright::onnx_operators
