// ONNX operators that reduce dims, or look along one.

#include <algorithm>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/moves.h"
#include "shardwright/ops/calls.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

/// The attributes of ours; nothing if nothing is reduced. Axes are an input from operator set 13 (ReduceSum) or 18 on.
std::optional<Attributes> reduced(OnnxNode& n) {
  List dims = n.integers_of(1, "axes");
  const bool keeps_all = n.integer("noop_with_empty_axes", 0) != 0 && dims.empty();
  const bool keep = n.integer("keepdims", 1) != 0;
  const std::size_t rank = n.shape(0).size();
  std::vector<bool> seen(rank);
  for (std::int64_t& d : dims) {
    d = n.dim(d, rank);
    if (seen[static_cast<std::size_t>(d)]) throw error("axis {} is named twice", d);
    seen[static_cast<std::size_t>(d)] = true;
  }
  if (keeps_all || rank == 0) return std::nullopt;
  return Attributes{{"dims", dims}, {"keep", keep}};
}

/// Gives op(x), behind `before` and in front of `after`, where they are named.
void reduce(OnnxNode& n, std::string_view op, std::string_view before = "", std::string_view after = "") {
  ValueId x = n.in(0);
  if (!before.empty()) x = n.call(before, {x});
  if (const auto attributes = reduced(n)) x = n.main(op, {x}, *attributes);
  if (!after.empty()) x = n.call(after, {x});
  n.give(x);
}

void reduce_sum(OnnxNode& n) { reduce(n, "reduce_sum"); }
void reduce_mean(OnnxNode& n) { reduce(n, "reduce_mean"); }
void norm(OnnxNode& n) { reduce(n, "reduce_sum", "square", "sqrt"); }
void log_of_sum(OnnxNode& n) { reduce(n, "reduce_sum", "", "log"); }

/// The largest, or the smallest as the largest of what is turned round; of bools: whether any is, or all are.
void extreme(OnnxNode& n, bool is_smallest) {
  const DType dtype = n.type(0).dtype;
  const auto turned = [&](ValueId x) {
    if (!is_smallest) return x;
    return is_floating(n.type_of(x).dtype) ? n.call("neg", {x})
                                           : n.call("sub", {n.constant(Tensor({n.type_of(x).dtype, {}})), x});
  };
  ValueId x = n.in(0);
  if (dtype == DType::boolean) x = cast_to(n.builder(), x, DType::i32);
  x = turned(x);
  if (const auto attributes = reduced(n)) x = n.main("reduce_max", {x}, *attributes);
  n.give(cast_to(n.builder(), turned(x), dtype));
}
void reduce_max(OnnxNode& n) { extreme(n, false); }
void reduce_min(OnnxNode& n) { extreme(n, true); }

void sum_of_magnitudes(OnnxNode& n) {
  if (is_floating(n.type(0).dtype)) return reduce(n, "reduce_sum", "abs");
  ValueId x = n.in(0);
  x = n.call("maximum", {x, n.call("sub", {n.constant(Tensor({n.type_of(x).dtype, {}})), x})});
  if (const auto attributes = reduced(n)) x = n.main("reduce_sum", {x}, *attributes);
  n.give(x);
}

void sum_of_squares(OnnxNode& n) {
  ValueId x = n.call("mul", {n.in(0), n.in(0)});
  if (const auto attributes = reduced(n)) x = n.main("reduce_sum", {x}, *attributes);
  n.give(x);
}

/// log(sum(e^x)) by the largest x, so that no power is infinite.
void log_of_sum_of_powers(OnnxNode& n) {
  const ValueId x = n.in(0);
  const auto attributes = reduced(n);
  if (!attributes) return n.give(x);
  Attributes keeping = *attributes;
  keeping.set("keep", true);
  const ValueId largest = n.call("stop_gradient", {n.call("reduce_max", {x}, keeping)});
  const ValueId powers = n.call("exp", {n.call("sub", {x, largest})});
  const ValueId sum = n.call("log", {n.main("reduce_sum", {powers}, *attributes)});
  const ValueId flat = n.call("reshape", {largest}, {{"shape", n.type_of(sum).shape}});
  n.give(n.call("add", {sum, flat}));
}

/// x with the dims that are reduced as its last one.
ValueId with_last(OnnxNode& n, const List& dims, Shape& kept) {
  const Shape& x = n.shape(0);
  List order;
  for (std::size_t d = 0; d < x.size(); ++d)
    if (std::ranges::find(dims, static_cast<std::int64_t>(d)) == dims.end()) {
      order.push_back(static_cast<std::int64_t>(d));
      kept.push_back(x[d]);
    }
  Shape shape = kept;
  shape.push_back(element_count(x) / std::max<std::int64_t>(element_count(kept), 1));
  order.insert(order.end(), dims.begin(), dims.end());
  return reshaped(n, transposed(n, n.in(0), order), shape);
}

/// Half of it times the other half, until one is left: a logarithm of products, and their gradients.
void product_of(OnnxNode& n) {
  const auto attributes = reduced(n);
  if (!attributes) return n.give(n.in(0));
  List dims = attributes->integers("dims");
  const Shape x = n.shape(0);
  for (std::size_t d = 0; dims.size() < x.size() && attributes->integers("dims").empty(); ++d)
    dims.push_back(static_cast<std::int64_t>(d));
  Shape kept;
  ValueId y = with_last(n, dims, kept);
  const std::size_t last = kept.size();
  for (std::int64_t count = n.type_of(y).shape.back(); count > 1; count = n.type_of(y).shape.back()) {
    const std::int64_t half = count / 2;
    const ValueId pairs = n.call("mul", {part(n, y, last, 0, half), part(n, y, last, half, 2 * half)});
    y = count == 2 * half ? pairs : joined(n, {pairs, part(n, y, last, 2 * half, count)}, last);
  }
  Shape shape = kept;
  if (attributes->flag("keep")) {
    shape = x;
    for (std::int64_t d : dims) shape[static_cast<std::size_t>(d)] = 1;
  }
  n.give(n.main("reshape", {y}, {{"shape", shape}}));
}

/// Up to operator set 12 all dims from `axis` on are one.
template <class Of>
void along_axis(OnnxNode& n, Of of) {
  const Shape& x = n.shape(0);
  const bool is_flat = n.opset() < 13;
  const std::int64_t dim = n.dim(n.integer("axis", is_flat ? 1 : -1), x.size());
  const auto first = static_cast<std::size_t>(dim);
  if (!is_flat || first + 1 == x.size()) return n.give(of(n.in(0), dim));
  const Shape flat{element_count(std::span(x).first(first)), element_count(std::span(x).subspan(first))};
  const ValueId y = of(n.call("reshape", {n.in(0)}, {{"shape", flat}}), std::int64_t{1});
  n.give(n.call("reshape", {y}, {{"shape", x}}));
}

void softmax_as(OnnxNode& n, std::string_view op) {
  along_axis(n, [&](ValueId x, std::int64_t dim) { return n.main(op, {x}, {{"dim", dim}}); });
}
void softmax(OnnxNode& n) { softmax_as(n, "softmax"); }
void log_softmax(OnnxNode& n) { softmax_as(n, "log_softmax"); }

ValueId one_hot_of(OnnxNode& n, ValueId classes, std::int64_t depth, std::int64_t dim, DType dtype) {
  const ValueId y = n.main("one_hot", {classes},
                           {{"depth", depth}, {"from_end", true}, {"dtype", std::string(name_of(dtype))}});
  return moved(n, y, n.type_of(y).shape.size() - 1, static_cast<std::size_t>(dim));
}

/// 1 at the first of the largest, else 0.
void hardmax(OnnxNode& n) {
  along_axis(n, [&](ValueId x, std::int64_t dim) {
    const Type type = n.type_of(x);
    const ValueId at = n.call("argmax", {x}, {{"dim", dim}});
    return one_hot_of(n, at, type.shape[static_cast<std::size_t>(dim)], dim, type.dtype);
  });
}

/// x the other way round along `dim`.
ValueId turned_round(OnnxNode& n, ValueId x, std::int64_t dim) {
  List order = counted(n.type_of(x).shape[static_cast<std::size_t>(dim)]);
  std::ranges::reverse(order);
  return gathered(n, x, static_cast<std::size_t>(dim), order);
}

/// The last of several is the first of what is turned round.
void position_as(OnnxNode& n, std::string_view op) {
  const bool is_last = n.integer("select_last_index", 0) != 0;
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  const ValueId x = is_last ? turned_round(n, n.in(0), dim) : n.in(0);
  const ValueId found = n.main(op, {x}, {{"dim", dim}, {"keep", n.integer("keepdims", 1) != 0}});
  const ValueId at = cast_to(n.builder(), found, DType::i64);
  if (!is_last) return n.give(at);
  Tensor end({DType::i64, {}});
  end.as<std::int64_t>()[0] = n.shape(0)[static_cast<std::size_t>(dim)] - 1;
  n.give(n.call("sub", {n.constant(std::move(end)), at}));
}

void argmax(OnnxNode& n) { position_as(n, "argmax"); }
void argmin(OnnxNode& n) { position_as(n, "argmin"); }

void cumulative_sum(OnnxNode& n) {
  const auto dim = n.dim(static_cast<std::int64_t>(n.number_of(1)), n.shape(0).size());
  n.give(n.main("cumsum", {n.in(0)},
                {{"dim", dim},
                 {"exclusive", n.integer("exclusive", 0) != 0},
                 {"reverse", n.integer("reverse", 0) != 0}}));
}

/// off + (on - off) h, where h is 1 at the class.
void one_hot(OnnxNode& n) {
  const Tensor wide = convert(*n.constant(2), DType::f64);
  if (wide.size() != 2) throw error("input 2 is {} but should be two values", to_text(n.type(2)));
  const double off = wide.as<double>()[0], on = wide.as<double>()[1];
  const DType dtype = n.type(2).dtype;
  const bool is_plain = off == 0 && on == 1 && is_floating(dtype);
  const std::int64_t dim = n.dim(n.integer("axis", -1), n.shape(0).size() + 1);
  const auto depth = static_cast<std::int64_t>(n.number_of(1));
  const ValueId classes = is_floating(n.type(0).dtype) ? cast_to(n.builder(), n.in(0), DType::i64) : n.in(0);
  ValueId y = one_hot_of(n, classes, depth, dim, is_plain ? dtype : DType::f64);
  if (!is_plain) {
    y = n.call("shift", {n.call("scale", {y}, {{"factor", on - off}})}, {{"value", off}});
    y = cast_to(n.builder(), y, dtype);
  }
  n.give(y);
}

}  // namespace

std::vector<Conversion> reductions() {
  return {{"ArgMax", argmax},
          {"ArgMin", argmin},
          {"CumSum", cumulative_sum},
          {"Hardmax", hardmax},
          {"LogSoftmax", log_softmax},
          {"OneHot", one_hot},
          {"ReduceL1", sum_of_magnitudes},
          {"ReduceL2", norm},
          {"ReduceLogSum", log_of_sum},
          {"ReduceLogSumExp", log_of_sum_of_powers},
          {"ReduceMax", reduce_max},
          {"ReduceMean", reduce_mean},
          {"ReduceMin", reduce_min},
          {"ReduceProd", product_of},
          {"ReduceSum", reduce_sum},
          {"ReduceSumSquare", sum_of_squares},
          {"Softmax", softmax}};
}

}  // namespace shardwright::onnx_operators
