#include "shardwright/frontend/modules/masks.h"

#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

/// Far below any score, and no infinity: a query that sees nothing then gets a mean, and no NaN.
double lowest(DType dtype) { return dtype == DType::f16 ? -3e4 : -1e30; }

Traced shaped(Traced x, const std::string& name, Shape shape) {
  return Operator("reshape", name).with("shape", std::move(shape))(x);
}

/// Scores get 0 where `seen`, else what hides.
Traced added(Trace& trace, Traced seen, const std::string& name) {
  const DType dtype = trace.precision();
  const Traced none{&trace, constant(trace.builder(), dtype, 0)},
      hidden{&trace, constant(trace.builder(), dtype, lowest(dtype))};
  return trace.call("where", {seen, none, hidden}, {}, name);
}

Traced is_there(Trace& trace, Traced attention_mask, const std::string& name) {
  const Shape shape = attention_mask.type().shape;
  const Traced zero{&trace, constant(trace.builder(), DType::i32, 0)};
  const Traced there = trace.call("not_equal", {attention_mask, zero}, {}, name + ".there");
  return shaped(there, name + ".keys", {shape[0], 1, 1, shape[1]});
}

}  // namespace

Traced padding_mask(Trace& trace, Traced attention_mask, const std::string& name, std::int64_t queries) {
  const Traced mask = added(trace, is_there(trace, attention_mask, name), name);
  const Shape shape = attention_mask.type().shape;
  if (queries == 1) return mask;
  return Operator("broadcast", name + ".rows").with("shape", Shape{shape[0], 1, queries, shape[1]})(mask);
}

std::optional<Traced> Masks::of(std::int64_t window) {
  if (window >= shape_[1]) window = 0;
  const auto known = masks_.find(window);
  if (known != masks_.end()) return known->second;
  return masks_[window] = made(window);
}

/// 0, 1, 2, ...
Traced Masks::places() {
  const Traced ones = trace_.call(
      "fill", {}, {{"shape", Shape{shape_[1]}}, {"value", 1.0}, {"dtype", std::string("i32")}}, "mask.ones");
  return trace_.call("cumsum", {ones}, {{"exclusive", true}}, "mask.places");
}

/// The number of each element's document: one begins where a position is not one more than the one before.
Traced Masks::documents() {
  const std::int64_t batch = shape_[0], length = shape_[1];
  const auto part = [&](std::int64_t from, std::int64_t to, const char* name) {
    return trace_.call("strided_slice", {*data_.positions},
                       {{"dims", Shape{1}}, {"starts", Shape{from}}, {"stops", Shape{to}}}, name);
  };
  const Traced step = trace_.call("sub", {part(1, length, "mask.later"), part(0, length - 1, "mask.earlier")},
                                  {}, "mask.steps");
  const Traced one{&trace_, constant(trace_.builder(), DType::i32, 1)};
  const Traced begins = trace_.call("cast", {trace_.call("not_equal", {step, one}, {}, "mask.breaks")},
                                    {{"to", std::string("i32")}}, "mask.begins");
  const Traced first = trace_.call(
      "fill", {}, {{"shape", Shape{batch, 1}}, {"value", 0.0}, {"dtype", std::string("i32")}}, "mask.first");
  const Traced all = Operator("concat", "mask.all").with("dim", std::int64_t{1})(first, begins);
  return trace_.call("cumsum", {all}, {{"dim", std::int64_t{1}}}, "mask.documents");
}

std::optional<Traced> Masks::made(std::int64_t window) {
  const std::int64_t batch = shape_[0], length = shape_[1];
  std::optional<Traced> seen;
  const auto also = [&](Traced x) {
    seen = seen ? trace_.call("logical_and", {*seen, x}, {}, "mask.seen") : x;
  };
  if (window > 0 || hide_later()) {
    const Traced at = places(),
                 apart = trace_.call("sub", {shaped(at, "mask.queries", {length, 1}), at}, {}, "mask.apart");
    const auto number = [&](std::int64_t n) {
      return Traced{&trace_, constant(trace_.builder(), DType::i32, static_cast<double>(n))};
    };
    if (window > 0) also(trace_.call("less", {apart, number(window)}, {}, "mask.window"));
    if (hide_later()) also(trace_.call("greater_equal", {apart, number(0)}, {}, "mask.earlier_ones"));
  }
  if (data_.are_apart && data_.positions && length > 1) {
    const Traced d = documents();
    also(trace_.call("equal",
                     {shaped(d, "mask.of_queries", {batch, 1, length, 1}),
                      shaped(d, "mask.of_keys", {batch, 1, 1, length})},
                     {}, "mask.same"));
  }
  if (data_.attention_mask && !seen) return padding_mask(trace_, *data_.attention_mask, "mask", length);
  if (data_.attention_mask) also(is_there(trace_, *data_.attention_mask, "mask"));
  if (!seen) return std::nullopt;
  return added(trace_, *seen, "mask");
}

}  // namespace shardwright
