// Every step-th element from start up to, not including, stop of some dims; and what undoes it, the tensor with
// something around its elements and between them. Each is the other's gradient. Dims of which all is taken are
// free, the others stay whole.
//
// `starts` and `stops` are read as Python does: negative ones count from the end, those beyond it are cut off.

#include <algorithm>
#include <array>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/listed_dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Element i of the smaller tensor's dim is element start + i step of the larger one's.
struct Range {
  std::int64_t start = 0, step = 1, count = 0;
  bool is_all(std::int64_t size) const { return start == 0 && step == 1 && count == size; }
};

std::int64_t from_left(std::int64_t at, std::int64_t size) {
  return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
}

/// Per dim of x what is taken of it.
std::vector<Range> ranges_of_slice(const Call& call) {
  check_count(call, 1);
  const Shape& shape = call.operands[0].shape;
  std::vector<Range> ranges;
  for (std::int64_t size : shape) ranges.push_back({0, 1, size});
  const List dims = listed_dims(call.attributes, shape);
  const List starts = list_per_dim(call.attributes, "starts", dims.size(), 0);
  const List stops = list_per_dim(call.attributes, "stops", dims.size(), INT64_MAX);
  const List steps = list_per_dim(call.attributes, "steps", dims.size(), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims[i]);
    const std::int64_t start = from_left(starts[i], shape[d]), stop = from_left(stops[i], shape[d]);
    if (steps[i] < 1) throw error("steps={} should be at least 1 each", to_text(steps));
    if (stop <= start)
      throw error("nothing of dim {} of {} is from {} to {}", d, to_text(call.operands[0]), starts[i],
                  stops[i]);
    const std::int64_t count = (stop - start - 1) / steps[i] + 1;
    ranges[d] = {start, count == 1 ? 1 : steps[i], count};  // a step to nowhere may be of any length
  }
  return ranges;
}

/// Per dim of y where the elements of x are.
std::vector<Range> ranges_of_pad(const Call& call, Shape* result) {
  check_count(call, 1);
  Shape shape = call.operands[0].shape;
  std::vector<Range> ranges;
  for (std::int64_t size : shape) ranges.push_back({0, 1, size});
  const List dims = listed_dims(call.attributes, shape);
  const List before = list_per_dim(call.attributes, "before", dims.size(), 0);
  const List after = list_per_dim(call.attributes, "after", dims.size(), 0);
  const List gaps = list_per_dim(call.attributes, "gaps", dims.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims[i]);
    constexpr std::int64_t most = std::int64_t{1} << 40;
    for (std::int64_t n : {before[i], after[i], gaps[i]})
      if (n < 0 || n > most)
        throw error("before={}, after={} and gaps={} should be from 0 to 2^40", to_text(before),
                    to_text(after), to_text(gaps));
    ranges[d] = {before[i], gaps[i] + 1, shape[d]};
    const std::int64_t inside = shape[d] == 0 ? 0 : element_count(List{shape[d] - 1, gaps[i] + 1}) + 1;
    shape[d] = before[i] + inside + after[i];
  }
  if (result) *result = std::move(shape);
  return ranges;
}

// ---- both ----

/// Loop dims of the larger and the smaller tensor: whole where not all is taken.
std::pair<std::string, std::string> sides(const std::vector<Range>& ranges, const Shape& larger) {
  std::vector<std::string> large, small;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const bool is_all = ranges[d].is_all(larger[d]);
    large.push_back(is_all ? loop_name(d) : fmt::format("all{}^", d));
    small.push_back(is_all ? loop_name(d) : fmt::format("some{}^", d));
  }
  return {tensor_text(large), tensor_text(small)};
}

/// The attributes of the pad that undoes a slice, or of the slice that undoes a pad.
Attributes undoing(const std::vector<Range>& ranges, const Shape& larger, bool is_slice) {
  List dims, first, last, steps;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const auto [start, step, count] = ranges[d];
    if (ranges[d].is_all(larger[d])) continue;
    const std::int64_t stop = start + (count - 1) * step + 1;
    dims.push_back(static_cast<std::int64_t>(d));
    first.push_back(start);
    last.push_back(is_slice ? stop : larger[d] - stop);
    steps.push_back(is_slice ? step : step - 1);
  }
  if (is_slice) return {{"dims", dims}, {"starts", first}, {"stops", last}, {"steps", steps}};
  return {{"dims", dims}, {"before", first}, {"after", last}, {"gaps", steps}};
}

/// Loops over the elements of the smaller tensor (0) and where they stand in the larger one (1).
struct Placed {
  Walk<2> walk;
  std::int64_t first = 0;  // in the larger tensor

  template <class RangeOf>
  Placed(const TensorView& small, const TensorView& large, RangeOf range_of) {
    std::int64_t small_stride = 1, large_stride = 1;
    for (std::size_t d = small.shape.size(); d-- > 0;) {
      Range range = range_of(d);
      if (range.count == 1) range.step = 1;  // it may be of any length
      const std::int64_t count = small.shape[d], last = range.start + (count - 1) * range.step;
      require(count == range.count && last < large.shape[d], "dim {} of {} does not lie in {}", d,
              to_text(small.shape), to_text(large.shape));
      walk.surround({count, {small_stride, range.step * large_stride}});
      first += range.start * large_stride;
      small_stride *= count;
      large_stride *= large.shape[d];
    }
  }
};

/// Elements of `bytes` bytes, as integers.
template <class F>
void visit_size(std::size_t bytes, F f) {
  switch (bytes) {
    case 1: return f(std::type_identity<std::uint8_t>{});
    case 2: return f(std::type_identity<std::uint16_t>{});
    case 4: return f(std::type_identity<std::uint32_t>{});
    default: return f(std::type_identity<std::uint64_t>{});
  }
}

/// Calls `copy(small, large, n, step)` for every row.
template <class T, class F>
void for_each_placed_row(const Placed& placed, const TensorView& small, const TensorView& large, F copy) {
  T* const few = reinterpret_cast<T*>(small.data);
  T* const many = reinterpret_cast<T*>(large.data) + placed.first;
  const auto [n, strides] = placed.walk.row();
  for_each_row(placed.walk,
               [&, n = n, step = strides[1]](const auto& at) { copy(few + at[0], many + at[1], n, step); });
}

/// In PyTorch: what is taken or filled of each dim of the larger tensor. Dims of which all is taken may be split: they are
/// `None` and stay as they are.
Attributes places_in_torch(const std::vector<Range>& ranges, const Shape& larger) {
  List starts, steps, counts;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const bool is_all = ranges[d].is_all(larger[d]);
    starts.push_back(ranges[d].start);
    steps.push_back(ranges[d].step);
    counts.push_back(is_all ? -1 : ranges[d].count);
  }
  return {{"at", starts}, {"step", steps}, {"count", counts}};
}

// ---- slice ----

std::vector<Type> infer_slice(const Call& call) {
  Type y = call.operands.empty() ? Type{} : call.operands[0];
  const std::vector<Range> ranges = ranges_of_slice(call);
  for (std::size_t d = 0; d < ranges.size(); ++d) y.shape[d] = ranges[d].count;
  return {y};
}

std::string slice_rule(const Call& call) {
  const auto [large, small] = sides(ranges_of_slice(call), call.operands[0].shape);
  return large + " -> " + small;
}

std::vector<ValueId> slice_gradient(Gradient& g) {
  const std::array<Type, 1> x{g.type(g.in(0))};
  const auto ranges = ranges_of_slice({x, {}, g.attributes()});
  return {g.call("pad", {g.dy()}, undoing(ranges, x[0].shape, false))};
}

void slice_kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const std::size_t rank = x.shape.size();
  const Placed placed(y, x, [&](std::size_t d) {
    const std::int64_t size = x.shape[d], step = entry(call.attributes, "steps", d, rank, 1);
    const std::int64_t start = from_left(entry(call.attributes, "starts", d, rank, 0), size);
    const std::int64_t stop = from_left(entry(call.attributes, "stops", d, rank, INT64_MAX), size);
    return Range{start, step, (stop - start - 1) / step + 1};
  });
  visit_size(size_of(x.dtype), [&]<class T>(std::type_identity<T>) {
    for_each_placed_row<T>(placed, y, x, [](T* to, const T* from, std::int64_t n, std::int64_t step) {
      if (step == 1)
        std::copy_n(from, n, to);
      else
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    });
  });
}

// ---- pad ----

std::vector<Type> infer_pad(const Call& call) {
  Type y = call.operands.empty() ? Type{} : call.operands[0];
  call.attributes.number("value", 0);
  ranges_of_pad(call, &y.shape);
  return {y};
}

std::string pad_rule(const Call& call) {
  Shape result;
  const auto ranges = ranges_of_pad(call, &result);
  const auto [large, small] = sides(ranges, result);
  return small + " -> " + large;
}

std::vector<ValueId> pad_gradient(Gradient& g) {
  const std::array<Type, 1> x{g.type(g.in(0))};
  const auto ranges = ranges_of_pad({x, {}, g.attributes()}, nullptr);
  return {g.call("strided_slice", {g.dy()}, undoing(ranges, g.type(g.out()).shape, true))};
}

void pad_kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  const std::size_t rank = x.shape.size();
  const Placed placed(x, y, [&](std::size_t d) {
    return Range{entry(call.attributes, "before", d, rank, 0), entry(call.attributes, "gaps", d, rank, 0) + 1,
                 x.shape[d]};
  });
  visit(y.dtype, [&]<class T>(std::type_identity<T>) {
    const auto all = y.as<T>();
    std::fill(all.begin(), all.end(),
              static_cast<T>(static_cast<Compute<T>>(call.attributes.number("value", 0))));
    for_each_placed_row<T>(placed, x, y, [](const T* from, T* to, std::int64_t n, std::int64_t step) {
      if (step == 1)
        std::copy_n(from, n, to);
      else
        for (std::int64_t i = 0; i < n; ++i) to[i * step] = from[i];
    });
  });
}

constexpr const char* in_places = R"(
def places(starts, steps, counts):
    """Every step-th element from a start on, so many; a count of -1 is all of a dim."""
    return tuple(slice(None) if n < 0 else slice(start, start + (n - 1) * step + 1, step)
                 for start, step, n in zip(starts, steps, counts))
)";

}  // namespace

std::vector<OpDef> strided_slice() {
  return {
      {.name = "strided_slice",
       .doc = "every steps[i]-th element of dim dims[i] of x from starts[i] up to stops[i]",
       .attributes = {"dims", "starts", "steps", "stops"},
       .rule_for = slice_rule,
       .linear = "{0}",
       .infer = infer_slice,
       .gradient = slice_gradient,
       .kernel = slice_kernel,
       .samples = {"f32[4,6] (dims=[1], starts=[1], stops=[5])", "f32[6,4] (starts=[2,0], stops=[6,4])",
                   "f32[2,12,6] (dims=[-2,0], starts=[-11,0], stops=[-2,9], steps=[4,1])",
                   "i32[6,6] (dims=[0], starts=[3], steps=[2])"},
       .torch = {.line = "{0}[places({at}, {step}, {count})]",
                 .numbers =
                     [](const KernelCall& c) {
                       const Type x{c.operands[0].dtype, c.operands[0].shape};
                       return places_in_torch(ranges_of_slice({std::span(&x, 1), {}, c.attributes}), x.shape);
                     },
                 .functions = in_places,
                 .may_share = true}},
      {.name = "pad",
       .doc = "x with before[i] and after[i] times `value` around dim dims[i], gaps[i] between its elements",
       .attributes = {"after", "before", "dims", "gaps", "value"},
       .defaults = {{"value", 0.0}},
       .rule_for = pad_rule,
       .linear_for = [](const Call& c) { return c.attributes.number("value", 0) == 0 ? "{0}" : ""; },
       .infer = infer_pad,
       .gradient = pad_gradient,
       .kernel = pad_kernel,
       .samples = {"f32[4,6] (dims=[1], before=[1], after=[2])", "f32[2,6,4] (before=[0,1,2], after=[0,0,3])",
                   "f32[6,4] (dims=[-2], before=[2], gaps=[1])", "f32[4,6] (dims=[0], after=[2], value=1.5)"},
       .torch = {.line = "pad({0}, {shape}, {value}, places({at}, {step}, {count}))",
                 .numbers =
                     [](const KernelCall& c) {
                       const Type x{c.operands[0].dtype, c.operands[0].shape};
                       return places_in_torch(ranges_of_pad({std::span(&x, 1), {}, c.attributes}, nullptr),
                                              c.results[0].shape);
                     },
                 .functions = std::string(in_places) + R"(
def pad(x, shape, value, where):
    y = torch.full(shape, value, dtype=x.dtype, device=x.device)
    y[where] = x
    return y
)"},
       .jax = {.functions = std::string(in_places) + R"(
def pad(x, shape, value, where):
    return jnp.full(shape, value, x.dtype).at[where].set(x)
)"}}};
}

}  // namespace shardwright::ops
