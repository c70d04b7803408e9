// Calls that conversions of several families share: other shapes, orders and parts of a value, and lists as constants.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/node.h"
#include "shardwright/frontend/onnx/tensors.h"
#include "shardwright/ops/calls.h"

namespace shardwright::onnx_operators {

/// The shape may be that of a value in the graph, which grows: it is copied.
inline ValueId reshaped(OnnxNode& n, ValueId x, Shape shape) {
  if (n.type_of(x).shape == shape) return x;
  check_limits(shape, 1);
  return n.call("reshape", {x}, {{"shape", std::move(shape)}});
}

/// Dim d of the result is dim dims[d] of x.
inline ValueId transposed(OnnxNode& n, ValueId x, const std::vector<std::int64_t>& dims) {
  if (std::ranges::is_sorted(dims)) return x;
  return n.call("transpose", {x}, {{"dims", dims}});
}

/// With dim `from` moved to `to`.
inline ValueId moved(OnnxNode& n, ValueId x, std::size_t from, std::size_t to) {
  std::vector<std::int64_t> dims(n.type_of(x).shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(from));
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return transposed(n, x, dims);
}

/// Every `step`-th element from `start` up to, not including, `stop` of dim `dim`.
inline ValueId part(OnnxNode& n, ValueId x, std::size_t dim, std::int64_t start, std::int64_t stop,
                    std::int64_t step = 1) {
  if (start == 0 && step == 1 && stop == n.type_of(x).shape[dim]) return x;
  using List = std::vector<std::int64_t>;
  return n.call("strided_slice", {x},
                {{"dims", List{static_cast<std::int64_t>(dim)}},
                 {"starts", List{start}},
                 {"stops", List{stop}},
                 {"steps", List{step}}});
}

/// What is listed while a model is loaded is bounded (limits.h). Throws: Error if `count` numbers are more.
inline void check_listed(std::int64_t count) {
  if (count > limits::constant_elements)
    throw error("needs a list of {} numbers, more than {}", count, limits::constant_elements);
}

/// 0, 1, ... below `count`.
inline std::vector<std::int64_t> counted(std::int64_t count) {
  check_listed(count);
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// Each of which is a value of the graph.
constexpr std::int64_t most_single_parts = 4096;

/// All parts of size 1 of dim `dim`, which stays.
inline std::vector<ValueId> single_parts(OnnxNode& n, ValueId x, std::size_t dim) {
  const std::int64_t count = n.type_of(x).shape[dim];
  if (count > most_single_parts)
    throw error("{} parts one by one are not supported; the graph holds them all, and at most {} are", count,
                most_single_parts);
  if (count == 1) return {x};
  return n.builder().call_all(find_op("split"), {x},
                              {{"dim", static_cast<std::int64_t>(dim)},
                               {"sizes", std::vector<std::int64_t>(static_cast<std::size_t>(count), 1)}},
                              n.name() + ".split");
}

inline ValueId joined(OnnxNode& n, std::vector<ValueId> parts, std::size_t dim) {
  if (parts.size() == 1) return parts.front();
  return n.call("concat", std::move(parts), {{"dim", static_cast<std::int64_t>(dim)}});
}

inline ValueId stretched(OnnxNode& n, ValueId x, Shape shape) {
  if (n.type_of(x).shape == shape) return x;
  check_limits(shape, 1);
  return n.call("broadcast", {x}, {{"shape", std::move(shape)}});
}

/// x with `before` and `after` times `value` around dim `dim`.
inline ValueId padded(OnnxNode& n, ValueId x, std::size_t dim, std::int64_t before, std::int64_t after,
                      double value = 0) {
  if (before == 0 && after == 0) return x;
  using List = std::vector<std::int64_t>;
  return n.call("pad", {x},
                {{"dims", List{static_cast<std::int64_t>(dim)}},
                 {"before", List{before}},
                 {"after", List{after}},
                 {"value", value}});
}

inline ValueId times(OnnxNode& n, ValueId x, double factor) {
  return factor == 1 ? x : n.call("scale", {x}, {{"factor", factor}});
}

inline ValueId cast_called(OnnxNode& n, ValueId x, DType to) {
  if (n.type_of(x).dtype == to) return x;
  return n.call("cast", {x}, {{"to", std::string(name_of(to))}});
}

/// Integers in the graph, of that shape.
inline ValueId integers(OnnxNode& n, const Shape& shape, std::span<const std::int64_t> numbers) {
  Tensor t({DType::i64, shape});
  std::ranges::copy(numbers, t.as<std::int64_t>().begin());
  return n.constant(std::move(t));
}

/// Numbers in the graph, of that type.
inline ValueId numbers(OnnxNode& n, const Type& type, std::span<const double> values) {
  return n.constant(make_tensor(type, values));
}

/// Rows of dim `dim` by places that are known.
inline ValueId gathered(OnnxNode& n, ValueId x, std::size_t dim, std::span<const std::int64_t> places) {
  return n.call("gather", {x, integers(n, {static_cast<std::int64_t>(places.size())}, places)},
                {{"dim", static_cast<std::int64_t>(dim)}});
}

/// `numbers` along dim `dim` of `rank`: a value that broadcasts.
inline Shape along(std::size_t dim, std::size_t rank, std::int64_t count) {
  Shape shape(rank, 1);
  shape[dim] = count;
  return shape;
}

/// Below all numbers that are meant: finite, so that differences are numbers.
inline double lowest_of(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::lowest() / 2;
  return dtype == DType::f16 ? -65504 : static_cast<double>(std::numeric_limits<float>::lowest()) / 2;
}

/// A value per channel, beside x of `rank` dims.
inline ValueId per_channel(OnnxNode& n, ValueId v, std::size_t rank) {
  return reshaped(n, v, along(0, rank - 1, element_count(n.type_of(v).shape)));
}

}  // namespace shardwright::onnx_operators
