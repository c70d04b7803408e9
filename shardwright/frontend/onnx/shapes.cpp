// ONNX operators that move elements: other shapes, other orders, parts, repetitions.

#include <algorithm>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/tensors.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/calls.h"

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

/// Without sizes the outputs are equal parts, but for the last one where `num_outputs` says their number.
void split(OnnxNode& n) {
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  const std::int64_t whole = n.shape(0)[static_cast<std::size_t>(dim)];
  List sizes = n.integers_of(1, "split");
  const auto parts = static_cast<std::int64_t>(n.output_count());
  if (sizes.empty()) {
    const bool is_counted = n.has_attribute("num_outputs");
    if (n.integer("num_outputs", parts) != parts)
      throw error("attribute 'num_outputs' is {} but there are {} outputs", n.integer("num_outputs", 0),
                  parts);
    if (parts == 0 || (!is_counted && whole % parts != 0))
      throw error("{} does not divide into {} equal parts", whole, parts);
    sizes.assign(static_cast<std::size_t>(parts), (whole + parts - 1) / parts);
    sizes.back() = whole - (parts - 1) * sizes.front();
    if (sizes.back() < 1) throw error("{} does not divide into {} parts", whole, parts);
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts)
    throw error("has {} sizes but {} outputs", sizes.size(), parts);
  std::int64_t rest = whole;
  for (std::int64_t size : sizes) rest -= size < 0 || size > rest ? rest + 1 : size;
  if (rest != 0) throw error("sizes {} do not add up to {}", to_text(sizes), whole);
  List filled;  // parts without elements depend on nothing
  std::ranges::copy_if(sizes, std::back_inserter(filled), [](std::int64_t s) { return s != 0; });
  std::vector<ValueId> made{n.in(0)};
  if (filled.size() > 1) made = n.main_all("split", {n.in(0)}, {{"dim", dim}, {"sizes", filled}});
  Shape empty = n.shape(0);
  empty[static_cast<std::size_t>(dim)] = 0;
  auto next = made.begin();
  for (std::int64_t size : sizes)
    if (size == 0)
      n.give(Tensor({n.type(0).dtype, empty}));
    else
      n.give(*next++);
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

/// Where a range begins and ends in a dim of `size`, and how many elements it takes.
struct Extract {
  std::int64_t start = 0, end = 0, step = 0, count = 0;

  Extract(const Ranges& r, std::size_t i, std::int64_t size) : step(std::max(r.steps[i], -size)) {
    if (r.steps[i] == 0) throw error("has a step of 0");
    const auto from_left = [size](std::int64_t at) { return at < 0 ? at + size : at; };
    const std::int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
    start = std::clamp<std::int64_t>(from_left(r.starts[i]), step < 0 ? 0 : least,
                                     std::max<std::int64_t>(most, 0));
    end = std::clamp<std::int64_t>(from_left(r.ends[i]), least, most);
    if (step > 0 && end > start) count = (end - start - 1) / step + 1;
    if (step < 0 && start > end) count = (start - end - 1) / -step + 1;
  }
};

/// The positions that a range with a step below 0 takes.
Tensor positions_of(const Extract& e) {
  if (e.count > limits::constant_elements)
    throw error("a step of {} through {} elements is not supported", e.step, e.count);
  Tensor t({DType::i64, {e.count}});
  std::int64_t at = e.start;
  for (std::int64_t& p : t.as<std::int64_t>()) p = std::exchange(at, at + e.step);
  return t;
}

/// What has no elements depends on nothing.
void slice(OnnxNode& n) {
  const Ranges all(n);
  Ranges forwards;
  Shape shape = n.shape(0);
  std::vector<std::pair<std::int64_t, Extract>> backwards;
  for (std::size_t i = 0; i < all.steps.size(); ++i) {
    const std::int64_t dim = n.dim(all.axes[i], shape.size());
    std::int64_t& size = shape[static_cast<std::size_t>(dim)];
    const Extract extract(all, i, size);
    size = extract.count;
    if (extract.step > 0)
      forwards.add(all, i);
    else
      backwards.emplace_back(dim, extract);
  }
  if (element_count(shape) == 0) return n.give(Tensor({n.type(0).dtype, shape}));
  ValueId y = n.in(0);
  for (const auto& [dim, extract] : backwards)
    y = n.call("gather", {y, n.constant(positions_of(extract))}, {{"dim", dim}});
  if (forwards.axes.empty()) return n.give(y);
  n.give(n.main("strided_slice", {y},
                {{"dims", forwards.axes},
                 {"starts", forwards.starts},
                 {"stops", forwards.ends},
                 {"steps", forwards.steps}}));
}

/// Indices that are computed and may count from the end. Those of an input are a network's own: none is below 0.
ValueId from_the_left(OnnxNode& n, ValueId indices, std::int64_t size) {
  const Graph& graph = n.builder().graph();
  const Node* made = &graph.node(graph.value(indices).producer);
  while (made->operands.size() == 1) made = &graph.node(graph.value(made->operands.front()).producer);
  if (made->op->kind == OpKind::input) return indices;
  const DType dtype = n.type_of(indices).dtype;
  const auto number = [&](std::int64_t value) {
    Tensor t({DType::i64, {}});
    t.as<std::int64_t>()[0] = value;
    return n.constant(convert(t, dtype));
  };
  return n.call("where",
                {n.call("less", {indices, number(0)}), n.call("add", {indices, number(size)}), indices});
}

/// Indices from the end are turned round.
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
    if (known.size() == 0) {
      Shape shape = n.shape(0);
      shape.erase(shape.begin() + dim);
      shape.insert(shape.begin() + dim, known.shape().begin(), known.shape().end());
      return n.give(Tensor({n.type(0).dtype, shape}));
    }
    indices = n.constant(std::move(known));
  } else {
    indices = from_the_left(n, n.in(1), size);
  }
  const bool is_bool = n.type(0).dtype == DType::boolean;  // rows are of numbers
  const ValueId table = is_bool ? cast_to(n.builder(), n.in(0), DType::i32) : n.in(0);
  n.give(cast_to(n.builder(), n.main("gather", {table, indices}, {{"dim", dim}}), n.type(0).dtype));
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
