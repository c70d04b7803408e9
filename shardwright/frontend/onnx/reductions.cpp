// ONNX operators that reduce dims, or look along one.

#include <algorithm>

#include "shardwright/frontend/onnx/conversions.h"

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
void reduce_max(OnnxNode& n) { reduce(n, "reduce_max"); }
void reduce_min(OnnxNode& n) { reduce(n, "reduce_max", "neg", "neg"); }
void sum_of_magnitudes(OnnxNode& n) { reduce(n, "reduce_sum", "abs"); }
void sum_of_squares(OnnxNode& n) { reduce(n, "reduce_sum", "square"); }
void norm(OnnxNode& n) { reduce(n, "reduce_sum", "square", "sqrt"); }

/// Up to operator set 12 all dims from `axis` on are one.
void softmax_as(OnnxNode& n, std::string_view op) {
  const Shape& x = n.shape(0);
  const bool is_flat = n.opset() < 13;
  const std::int64_t dim = n.dim(n.integer("axis", is_flat ? 1 : -1), x.size());
  const auto first = static_cast<std::size_t>(dim);
  if (!is_flat || first + 1 == x.size()) return n.give(n.main(op, {n.in(0)}, {{"dim", dim}}));
  const Shape flat{element_count(std::span(x).first(first)), element_count(std::span(x).subspan(first))};
  const ValueId y = n.main(op, {n.call("reshape", {n.in(0)}, {{"shape", flat}})}, {{"dim", std::int64_t{1}}});
  n.give(n.call("reshape", {y}, {{"shape", x}}));
}

void softmax(OnnxNode& n) { softmax_as(n, "softmax"); }
void log_softmax(OnnxNode& n) { softmax_as(n, "log_softmax"); }

void position_as(OnnxNode& n, std::string_view op) {
  if (n.integer("select_last_index", 0) != 0) throw error("attribute 'select_last_index=1' is not supported");
  const std::int64_t dim = n.dim(n.integer("axis", 0), n.shape(0).size());
  const ValueId at = n.main(op, {n.in(0)}, {{"dim", dim}, {"keep", n.integer("keepdims", 1) != 0}});
  n.give(n.type_of(at).dtype == DType::i64 ? at : n.call("cast", {at}, {{"to", std::string("i64")}}));
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

void one_hot(OnnxNode& n) {
  const auto values = to_doubles(*n.constant(2));
  if (n.dim(n.integer("axis", -1), n.shape(0).size() + 1) != static_cast<std::int64_t>(n.shape(0).size()) ||
      values != std::vector<double>{0, 1})
    throw error("only the last axis and the values 0 and 1 are supported");
  n.give(n.main("one_hot", {n.in(0)},
                {{"depth", static_cast<std::int64_t>(n.number_of(1))},
                 {"from_end", true},
                 {"dtype", std::string(name_of(n.type(2).dtype))}}));
}

}  // namespace

std::vector<Conversion> reductions() {
  return {{"ArgMax", argmax},          {"ArgMin", argmin},        {"CumSum", cumulative_sum},
          {"LogSoftmax", log_softmax}, {"OneHot", one_hot},       {"ReduceL1", sum_of_magnitudes},
          {"ReduceL2", norm},          {"ReduceMax", reduce_max}, {"ReduceMean", reduce_mean},
          {"ReduceMin", reduce_min},   {"ReduceSum", reduce_sum}, {"ReduceSumSquare", sum_of_squares},
          {"Softmax", softmax}};
}

}  // namespace shardwright::onnx_operators
