// ONNX operators that read or write elements at indices: GatherElements, GatherND, Scatter*, TensorScatter, TopK.
//
// Indices from the end are turned round, at once where they are known. Places in several dims become one in the product
// of these dims, so that the table's rows are gathered or scattered. Of equal places that are overwritten the last
// counts; products and extremes are taken place by place, in order.

#include <algorithm>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

void check_indices(const OnnxNode& n, std::size_t i) {
  const DType dtype = n.type(i).dtype;
  if (dtype != DType::i32 && dtype != DType::i64)
    throw error("input {} is {} but should be indices, i32 or i64", i, to_text(n.type(i)));
}

/// `at` counted from the start of `size` elements.
ValueId from_start(OnnxNode& n, ValueId at, std::int64_t size) {
  const DType dtype = n.type_of(at).dtype;
  const ValueId zero = constant(n.builder(), dtype, 0);
  const ValueId behind = n.call("add", {at, constant(n.builder(), dtype, static_cast<double>(size))});
  return n.call("where", {n.call("less", {at, zero}), behind, at});
}

std::int64_t checked_from_start(std::int64_t at, std::int64_t size) {
  if (at < -size || at >= size) throw error("index {} does not exist among {}", at, size);
  return at < 0 ? at + size : at;
}

/// Input `i`, indices of a dim of `size`.
ValueId indices_from_start(OnnxNode& n, std::size_t i, std::int64_t size) {
  check_indices(n, i);
  if (!n.is_known(i)) return from_start(n, n.in(i), size);
  Tensor known = convert(*n.constant(i), DType::i64);
  for (std::int64_t& at : known.as<std::int64_t>()) at = checked_from_start(at, size);
  return n.constant(std::move(known));
}

/// Bool, which has no rows, as integers, and back.
ValueId as_number(OnnxNode& n, ValueId x) {
  return n.type_of(x).dtype == DType::boolean ? cast_called(n, x, DType::i32) : x;
}
ValueId as_before(OnnxNode& n, ValueId y, DType dtype) {
  return dtype == DType::boolean ? cast_called(n, y, dtype) : y;
}

// ---- one dim ----

/// x without what lies behind `like` in dims other than `dim`.
ValueId cut(OnnxNode& n, ValueId x, const Shape& like, std::size_t dim) {
  for (std::size_t d = 0; d < like.size(); ++d)
    if (d != dim) x = part(n, x, d, 0, like[d]);
  return x;
}

/// x with `value` behind it in dims other than `dim`, up to `like`.
ValueId filled_up(OnnxNode& n, ValueId x, const Shape& like, std::size_t dim, double value) {
  for (std::size_t d = 0; d < like.size(); ++d)
    if (d != dim) x = padded(n, x, d, 0, like[d] - n.type_of(x).shape[d], value);
  return x;
}

/// The indexed dim. Throws: Error if the indices do not lie in x.
std::size_t checked_dim(const OnnxNode& n) {
  const Shape &x = n.shape(0), &indices = n.shape(1);
  const auto dim = static_cast<std::size_t>(n.dim(n.integer("axis", 0), x.size()));
  bool fits = indices.size() == x.size();
  for (std::size_t d = 0; fits && d < x.size(); ++d) fits = d == dim || indices[d] <= x[d];
  if (!fits)
    throw error("indices of {} do not lie in {}, other than along dim {}", to_text(indices), to_text(x), dim);
  return dim;
}

void gather_elements(OnnxNode& n) {
  const std::size_t dim = checked_dim(n);
  const Type x = n.type(0);
  const ValueId indices = indices_from_start(n, 1, x.shape[dim]);
  const ValueId y = n.main("take_along_dim", {as_number(n, cut(n, n.in(0), n.shape(1), dim)), indices},
                           {{"dim", static_cast<std::int64_t>(dim)}});
  n.give(as_before(n, y, x.dtype));
}

/// How equal places come together.
std::string reduction_of(const OnnxNode& n) {
  const std::string reduction = n.text("reduction", "none");
  for (const char* known : {"none", "add", "mul", "max", "min"})
    if (reduction == known) return reduction;
  throw error("attribute 'reduction={}' is not supported", printable(reduction));
}

std::string_view op_of(const std::string& reduction) {
  return reduction == "mul" ? "mul" : reduction == "max" ? "maximum" : "minimum";
}

/// One place after the other is a call for each.
void check_count_of_places(std::int64_t count, const std::string& reduction) {
  constexpr std::int64_t most = 256;
  if (count > most)
    throw error("attribute 'reduction={}' is supported for at most {} places, and there are {}", reduction,
                most, count);
}

ValueId scattered(OnnxNode& n, const std::string& reduction) {
  const std::size_t dim = checked_dim(n);
  const Type x = n.type(0);
  if (n.shape(2) != n.shape(1) || n.type(2).dtype != x.dtype)
    throw error("updates are {} but the indices {} of {} need {}", to_text(n.type(2)), to_text(n.shape(1)),
                to_text(x), to_text(Type{x.dtype, n.shape(1)}));
  const ValueId indices = indices_from_start(n, 1, x.shape[dim]), data = n.in(0), updates = n.in(2);
  if (reduction == "none" || reduction == "add") {
    const auto summed = [&](ValueId v) {
      const ValueId sum = n.call("add_along_dim", {v, indices},
                                 {{"dim", static_cast<std::int64_t>(dim)}, {"count", x.shape[dim]}});
      return filled_up(n, sum, x.shape, dim, 0);
    };
    if (reduction == "add") return n.call("add", {data, summed(updates)});
    const ValueId ones = n.call(
        "fill", {}, {{"shape", n.shape(1)}, {"value", 1.0}, {"dtype", std::string(name_of(DType::i32))}});
    const ValueId is_written = n.call("greater", {summed(ones), constant(n.builder(), DType::i32, 0)});
    return n.call("where", {is_written, summed(updates), data});
  }
  check_count_of_places(n.shape(1)[dim], reduction);
  const ValueId all_indices = filled_up(n, indices, x.shape, dim, -1);
  const auto at = single_parts(n, all_indices, dim);
  const auto with = single_parts(n, filled_up(n, updates, x.shape, dim, 0), dim);
  const List places = counted(x.shape[dim]);
  const ValueId place = cast_called(n, integers(n, along(dim, x.shape.size(), x.shape[dim]), places),
                                    n.type_of(all_indices).dtype);
  ValueId y = data;
  for (std::size_t i = 0; i < at.size(); ++i)
    y = n.call("where", {n.call("equal", {place, at[i]}), n.call(op_of(reduction), {y, with[i]}), y});
  return y;
}

void scatter_elements(OnnxNode& n) {
  const std::string reduction = reduction_of(n);
  n.give(scattered(n, reduction));
}

// ---- several dims ----

/// Places in the product of dims [first, first + count) of x: of indices [..., count], their last dim.
struct Places {
  std::int64_t count = 1;  // of elements of those dims
  ValueId at;              // i64[...]
};

/// `behind`: what the place of each element of the leading dims adds, or invalid.
Places places_in(OnnxNode& n, std::size_t first) {
  check_indices(n, 1);
  const Shape& x = n.shape(0);
  const Shape all = n.shape(1);
  if (all.empty() || all.back() < 1 || first + static_cast<std::size_t>(all.back()) > x.size())
    throw error("indices of {} do not lie in {}", to_text(all), to_text(x));
  const auto depth = static_cast<std::size_t>(all.back());
  const Shape shape(all.begin(), all.end() - 1);
  const auto dims = std::span(x).subspan(first, depth);
  Places places{.count = element_count(dims), .at = {}};
  const Shape strides = strides_of(Shape(dims.begin(), dims.end()));
  if (n.is_known(1)) {
    const Tensor known = convert(*n.constant(1), DType::i64);
    const auto from = known.as<std::int64_t>();
    List at(from.size() / depth);
    for (std::size_t i = 0; i < from.size(); ++i)
      at[i / depth] += checked_from_start(from[i], dims[i % depth]) * strides[i % depth];
    places.at = integers(n, shape, at);
    return places;
  }
  const ValueId indices = cast_called(n, n.in(1), DType::i64);
  for (std::size_t d = 0; d < depth; ++d) {
    const auto begin = static_cast<std::int64_t>(d);
    ValueId one = part(n, indices, all.size() - 1, begin, begin + 1);
    one = from_start(n, reshaped(n, one, shape), dims[d]);
    if (strides[d] != 1)
      one = n.call("mul", {one, constant(n.builder(), DType::i64, static_cast<double>(strides[d]))});
    places.at = d == 0 ? one : n.call("add", {places.at, one});
  }
  return places;
}

Shape joined_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  Shape out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

/// Of leading dims that both have, each has its own table: their rows stand one behind the other.
void gather_nd(OnnxNode& n) {
  const Type x = n.type(0);
  const Shape all = n.shape(1);
  const std::int64_t batch_dims = n.integer("batch_dims", 0);
  if (batch_dims < 0 || batch_dims >= std::min(std::ssize(x.shape), std::ssize(all)))
    throw error("batch_dims={} do not exist in {} and {}", batch_dims, to_text(x.shape), to_text(all));
  const auto first = static_cast<std::size_t>(batch_dims);
  if (!std::equal(all.begin(), all.begin() + batch_dims, x.shape.begin()))
    throw error("the first {} dims of {} and {} should be equal", batch_dims, to_text(x.shape), to_text(all));
  Places places = places_in(n, first);
  const std::int64_t batch = element_count(std::span(x.shape).first(first));
  const auto rest = std::span(x.shape).subspan(first + static_cast<std::size_t>(all.back()));
  const std::span<const std::int64_t> found(all.data(), all.size() - 1);
  if (batch > 1) {
    check_listed(batch);
    List begins;
    for (std::int64_t b = 0; b < batch; ++b) begins.push_back(b * places.count);
    Shape shape(found.begin(), found.begin() + batch_dims);
    shape.resize(found.size(), 1);
    places.at = n.call("add", {places.at, integers(n, shape, begins)});
  }
  const ValueId table = reshaped(n, as_number(n, n.in(0)), joined_shape(List{batch * places.count}, rest));
  n.give(as_before(n, n.main("gather", {table, places.at}, {{"dim", std::int64_t{0}}}), x.dtype));
}

void scatter_nd(OnnxNode& n) {
  const std::string reduction = reduction_of(n);
  const Type x = n.type(0);
  const Shape all = n.shape(1);
  const Places places = places_in(n, 0);
  const auto rest = std::span(x.shape).subspan(static_cast<std::size_t>(all.back()));
  const Shape wanted = joined_shape(std::span(all).first(all.size() - 1), rest);
  if (n.type(2) != Type{x.dtype, wanted})
    throw error("updates are {} but the indices {} of {} need {}", to_text(n.type(2)), to_text(all),
                to_text(x), to_text(Type{x.dtype, wanted}));
  const std::int64_t rows = element_count(std::span(all).first(all.size() - 1)), width = element_count(rest);
  const ValueId table = reshaped(n, as_number(n, n.in(0)), {places.count, width});
  const ValueId updates = reshaped(n, as_number(n, n.in(2)), {rows, width}),
                at = reshaped(n, places.at, {rows});
  ValueId y = table;
  if (reduction == "none" || reduction == "add") {
    y = n.main(reduction == "add" ? "scatter_add" : "scatter", {table, at, updates},
               {{"dim", std::int64_t{0}}});
  } else {
    check_count_of_places(rows, reduction);
    const List each = counted(places.count);
    const ValueId place = integers(n, {places.count, 1}, each);
    const auto one_at = single_parts(n, reshaped(n, at, {rows, 1}), 0);
    const auto with = single_parts(n, updates, 0);
    for (std::size_t i = 0; i < one_at.size(); ++i)
      y = n.call("where", {n.call("equal", {place, one_at[i]}), n.call(op_of(reduction), {y, with[i]}), y});
  }
  n.give(as_before(n, reshaped(n, y, x.shape), x.dtype));
}

/// A cache [b, ..., s, ...] whose rows from write_indices[b] on are those of the update.
void tensor_scatter(OnnxNode& n) {
  const Type cache = n.type(0), update = n.type(1);
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    throw error("attribute 'mode={}' is not supported", printable(mode));
  const auto dim = static_cast<std::size_t>(n.dim(n.integer("axis", -2), cache.shape.size()));
  Shape wanted = cache.shape;
  if (update.shape.size() == wanted.size()) wanted[dim] = update.shape[dim];
  if (dim == 0 || update.shape != wanted || update.shape[dim] > cache.shape[dim])
    throw error("an update of {} does not fit a cache of {} along dim {}", to_text(update), to_text(cache),
                dim);
  const std::int64_t batch = cache.shape[0], places = cache.shape[dim], rows = update.shape[dim];
  const List steps = counted(rows);
  check_listed(batch);
  List begins;
  for (std::int64_t b = 0; b < batch; ++b) begins.push_back(b * places);
  ValueId at = integers(n, {1, rows}, steps);
  if (n.has(2)) at = n.call("add", {reshaped(n, cast_called(n, n.in(2), DType::i64), {batch, 1}), at});
  if (mode == "circular") {
    const ValueId all = constant(n.builder(), DType::i64, static_cast<double>(places));
    at = n.call("where", {n.call("less", {at, all}), at, n.call("sub", {at, all})});
  }
  at = n.call("add", {at, integers(n, {batch, 1}, begins)});
  const auto flat = [&](ValueId v, std::int64_t count) {
    return reshaped(n, moved(n, v, dim, 1), {batch * count, element_count(cache.shape) / (batch * places)});
  };
  ValueId y = n.main("scatter", {flat(n.in(0), places), reshaped(n, at, {batch * rows}), flat(n.in(1), rows)},
                     {{"dim", std::int64_t{0}}});
  Shape shape = cache.shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  shape.insert(shape.begin() + 1, places);
  n.give(moved(n, reshaped(n, y, shape), 1, dim));
}

// ---- order ----

/// Sorted, whether that is asked for or not.
void top_k(OnnxNode& n) {
  const Shape& x = n.shape(0);
  const auto dim = static_cast<std::size_t>(n.dim(n.integer("axis", -1), x.size()));
  std::int64_t k = n.integer("k", 1);
  if (n.has(1)) {
    const List given = n.integers_of(1);
    if (given.size() != 1) throw error("k should be one number and not {}", to_text(given));
    k = given.front();
  }
  const bool is_largest = n.integer("largest", 1) != 0;
  n.integer("sorted", 1);
  const std::size_t last = x.size() - 1;
  const auto found = n.main_all("top_k", {moved(n, n.in(0), dim, last)}, {{"k", k}, {"largest", is_largest}});
  for (ValueId v : found) n.give(moved(n, v, last, dim));
}

}  // namespace

std::vector<Conversion> places() {
  return {{"GatherElements", gather_elements},
          {"GatherND", gather_nd},
          {"Scatter", scatter_elements},
          {"ScatterElements", scatter_elements},
          {"ScatterND", scatter_nd},
          {"TensorScatter", tensor_scatter},
          {"TopK", top_k, false}};
}

}  // namespace shardwright::onnx_operators
