// ONNX operators that move elements: other shapes, other orders, parts, repetitions.

#include <algorithm>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

std::int64_t product(std::span<const std::int64_t> sizes) { return element_count(sizes); }

void give_reshaped(OnnxNode& n, const Shape& shape) {
  check_limits(shape, 0);
  n.give(n.shape(0) == shape ? n.in(0) : n.main("reshape", {n.in(0)}, {{"shape", shape}}));
}

/// 0 takes the operand's size, -1 what is left.
void reshape(OnnxNode& n) {
  const Shape& from = n.shape(0);
  List to = n.integers_of(1);
  if (n.integer("allowzero", 0) != 0 && std::ranges::count(to, 0) > 0)
    throw error("allowzero=1 with a size of 0 is not supported");
  std::int64_t rest = -1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && d >= from.size())
      throw error("shape {} takes dim {} of {}, which it has not", to_text(to), d, to_text(from));
    if (to[d] == 0) to[d] = from[d];
    if (to[d] == -1 && std::exchange(rest, static_cast<std::int64_t>(d)) >= 0)
      throw error("shape {} leaves two sizes open", to_text(to));
  }
  if (rest >= 0) {
    std::int64_t& open = to[static_cast<std::size_t>(rest)];
    open = 1;
    const std::int64_t given = product(to);
    if (given < 1 || product(from) % given != 0)
      throw error("{} does not become {}", to_text(from), to_text(n.integers_of(1)));
    open = product(from) / given;
  }
  give_reshaped(n, to);
}

void flatten(OnnxNode& n) {
  const Shape& x = n.shape(0);
  const std::int64_t axis = n.integer("axis", 1), rank = static_cast<std::int64_t>(x.size());
  if (axis < -rank || axis > rank) throw error("axis {} does not exist among {} dims", axis, rank);
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  give_reshaped(n, {product(std::span(x).first(first)), product(std::span(x).subspan(first))});
}

/// Which dims `axes` names among `rank`. Throws: Error on one that does not exist or is named twice.
std::vector<bool> named(const OnnxNode& n, const List& axes, std::size_t rank) {
  if (rank > limits::rank) throw error("{} dims are more than {}", rank, limits::rank);
  std::vector<bool> out(rank);
  for (std::int64_t a : axes) {
    const auto d = static_cast<std::size_t>(n.dim(a, rank));
    if (out[d]) throw error("axis {} is named twice", a);
    out[d] = true;
  }
  return out;
}

void squeeze(OnnxNode& n) {
  const Shape& x = n.shape(0);
  const List axes = n.integers_of(1, "axes");
  const std::vector<bool> goes = named(n, axes, x.size());
  Shape shape;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (goes[d] && x[d] != 1) throw error("dim {} of {} is not 1", d, to_text(x));
    if (axes.empty() ? x[d] != 1 : !goes[d]) shape.push_back(x[d]);
  }
  give_reshaped(n, shape);
}

void unsqueeze(OnnxNode& n) {
  const Shape& x = n.shape(0);
  const List axes = n.integers_of(1, "axes");
  const std::vector<bool> comes = named(n, axes, x.size() + axes.size());
  Shape shape;
  for (std::size_t d = 0, from = 0; d < comes.size(); ++d) shape.push_back(comes[d] ? 1 : x[from++]);
  give_reshaped(n, shape);
}

void transpose(OnnxNode& n) {
  const std::size_t rank = n.shape(0).size();
  List order;
  for (std::size_t d = rank; d-- > 0;) order.push_back(static_cast<std::int64_t>(d));
  order = n.integers("perm", order);
  if (rank == 0) return n.give(n.in(0));
  n.give(n.main("transpose", {n.in(0)}, {{"dims", order}}));
}

/// Parts of size 0, which exporters make of empty shapes, are left out.
void concat(OnnxNode& n) {
  std::vector<ValueId> parts;
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  for (std::size_t i = 0; i < n.input_count(); ++i)
    if (element_count(n.shape(i)) > 0) parts.push_back(n.in(i));
  if (parts.empty()) parts.push_back(n.in(0));
  n.give(n.main("concat", std::move(parts), {{"dim", dim}}));
}

/// Without sizes the outputs are equal parts.
void split(OnnxNode& n) {
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  const std::int64_t whole = n.shape(0)[static_cast<std::size_t>(dim)];
  List sizes = n.integers_of(1, "split");
  const auto parts = static_cast<std::int64_t>(n.output_count());
  if (sizes.empty()) {
    if (parts == 0 || whole % parts != 0) throw error("{} does not divide into {} equal parts", whole, parts);
    sizes.assign(static_cast<std::size_t>(parts), whole / parts);
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts)
    throw error("has {} sizes but {} outputs", sizes.size(), parts);
  for (ValueId part : n.main_all("split", {n.in(0)}, {{"dim", dim}, {"sizes", sizes}})) n.give(part);
}

/// What is taken of dims: entry i of dim axes[i] from starts[i] up to ends[i].
struct Ranges {
  List axes, starts, ends, steps;

  /// Attributes up to operator set 9, inputs from 10 on.
  explicit Ranges(const OnnxNode& n) {
    const bool has_inputs = n.opset() >= 10;
    starts = has_inputs ? n.integers_of(1) : n.integers("starts");
    ends = has_inputs ? n.integers_of(2) : n.integers("ends");
    axes = has_inputs && n.has(3) ? n.integers_of(3) : n.integers("axes");
    steps = n.has(4) ? n.integers_of(4) : List(starts.size(), 1);
    for (std::size_t d = axes.size(); d < starts.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
      throw error("has {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
                  steps.size());
    named(n, axes, n.shape(0).size());
  }

  void add(const Ranges& from, std::size_t i) {
    axes.push_back(from.axes[i]);
    starts.push_back(from.starts[i]);
    ends.push_back(from.ends[i]);
    steps.push_back(from.steps[i]);
  }
  Ranges() = default;
};

/// The positions that a range with a step below 0 takes of a dim of `size`.
Tensor positions_backwards(const Ranges& r, std::size_t i, std::int64_t size) {
  if (size > limits::constant_elements)
    throw error("a step of {} through {} elements is not supported", r.steps[i], size);
  const auto from_left = [size](std::int64_t at) { return at < 0 ? at + size : at; };
  const std::int64_t start = std::clamp<std::int64_t>(from_left(r.starts[i]), 0, size - 1);
  const std::int64_t end = std::clamp<std::int64_t>(from_left(r.ends[i]), -1, size - 1);
  const std::int64_t step = std::max(r.steps[i], -size);
  List at;
  for (std::int64_t p = start; p > end; p += step) at.push_back(p);
  if (at.empty()) throw error("nothing is from {} back to {} of {}", r.starts[i], r.ends[i], size);
  Tensor t({DType::i64, {static_cast<std::int64_t>(at.size())}});
  std::ranges::copy(at, t.as<std::int64_t>().begin());
  return t;
}

void slice(OnnxNode& n) {
  const Ranges all(n);
  Ranges forwards;
  ValueId y = n.in(0);
  for (std::size_t i = 0; i < all.steps.size(); ++i) {
    if (all.steps[i] == 0) throw error("has a step of 0");
    if (all.steps[i] > 0) {
      forwards.add(all, i);
      continue;
    }
    const std::int64_t dim = n.dim(all.axes[i], n.shape(0).size());
    const std::int64_t size = n.shape(0)[static_cast<std::size_t>(dim)];
    y = n.call("gather", {y, n.constant(positions_backwards(all, i, size))}, {{"dim", dim}});
  }
  if (forwards.axes.empty()) return n.give(y);
  n.give(n.main("strided_slice", {y},
                {{"dims", forwards.axes},
                 {"starts", forwards.starts},
                 {"stops", forwards.ends},
                 {"steps", forwards.steps}}));
}

/// Indices from the end are turned round, where they are known.
void gather(OnnxNode& n) {
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  const std::int64_t size = n.shape(0)[static_cast<std::size_t>(dim)];
  ValueId indices;
  if (n.is_known(1)) {
    Tensor known = convert(*n.constant(1), DType::i64);
    for (std::int64_t& i : known.as<std::int64_t>()) {
      if (i < -size || i >= size) throw error("index {} does not exist among {}", i, size);
      if (i < 0) i += size;
    }
    indices = n.constant(std::move(known));
  } else {
    indices = n.in(1);
  }
  n.give(n.main("gather", {n.in(0), indices}, {{"dim", dim}}));
}

void expand(OnnxNode& n) {
  const List shape = n.integers_of(1);
  check_limits(shape, 0);
  const auto to = broadcast_shape(n.shape(0), shape);
  if (!to) throw error("{} does not broadcast to {}", to_text(n.shape(0)), to_text(shape));
  n.give(*to == n.shape(0) ? n.in(0) : n.main("broadcast", {n.in(0)}, {{"shape", *to}}));
}

void tile(OnnxNode& n) {
  const List repeats = n.integers_of(1);
  if (repeats.size() != n.shape(0).size())
    throw error("has {} repeats for {} dims", repeats.size(), n.shape(0).size());
  check_limits(repeats, 1);
  n.give(n.main("tile", {n.in(0)}, {{"repeats", repeats}}));
}

}  // namespace

std::vector<Conversion> shapes() {
  return {{"Concat", concat},   {"Expand", expand},       {"Flatten", flatten},    {"Gather", gather},
          {"Reshape", reshape}, {"Slice", slice},         {"Split", split},        {"Squeeze", squeeze},
          {"Tile", tile},       {"Transpose", transpose}, {"Unsqueeze", unsqueeze}};
}

}  // namespace shardwright::onnx_operators
