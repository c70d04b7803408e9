// Elements taken along a dim by indices of their own, and the sum of elements at equal ones: each is the other's gradient.
//
//   take_along_dim   y[p.., k, e..] = x[p.., indices[p.., k, e..], e..]
//   add_along_dim    y[p.., v, e..] = sum of x[p.., k, e..] over all k with indices[p.., k, e..] = v
//
// `dim` (default 0) is the dim that is indexed; beside it both are of one shape. All dims may be split: a rank that holds
// part of v takes the indices that lie in its own range, and zeros come out for those of others, so that the parts add up.

#include "shardwright/graph/builder.h"
#include "shardwright/ops/indexed_rows.h"

namespace shardwright::ops {
namespace {

std::size_t indexed_dim(const Call& call) {
  check_count(call, 2);
  return dim_of(call.attributes.integer("dim", 0), call.operands[0].shape);
}

/// The dims around the one that is indexed, which is called `at` here.
std::string dims_text(std::size_t rank, std::size_t dim, const char* at) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < rank; ++d) dims.push_back(d == dim ? at : loop_name(d));
  return tensor_text(dims);
}

std::string take_rule(const Call& call) {
  const std::size_t dim = indexed_dim(call), rank = call.operands[0].shape.size();
  return fmt::format("{}, {} -> {}", dims_text(rank, dim, "v+"), dims_text(rank, dim, "k"),
                     dims_text(rank, dim, "k"));
}

std::string add_rule(const Call& call) {
  const std::size_t dim = indexed_dim(call), rank = call.operands[0].shape.size();
  return fmt::format("{0}, {0} -> {1}", dims_text(rank, dim, "k+"), dims_text(rank, dim, "v"));
}

std::vector<Type> infer_take(const Call& call) {
  const std::size_t dim = indexed_dim(call);
  const Type &x = call.operands[0], &indices = call.operands[1];
  check_number(x.dtype);
  check_integer(indices.dtype);
  Shape like = x.shape;
  if (indices.shape.size() == like.size()) like[dim] = indices.shape[dim];
  if (indices.shape != like)
    throw error("the indices are {} but should be of the dims of {}, other than dim {}", to_text(indices),
                to_text(x), dim);
  return {{x.dtype, indices.shape}};
}

std::vector<Type> infer_add(const Call& call) {
  const std::size_t dim = indexed_dim(call);
  const Type &x = call.operands[0], &indices = call.operands[1];
  check_number(x.dtype);
  check_integer(indices.dtype);
  if (indices.shape != x.shape)
    throw error("the indices are {} but {} needs one for each element", to_text(indices), to_text(x));
  const std::int64_t count = call.attributes.integer("count", 0);
  if (count < 1) throw error("count is {} but must be at least 1; write for example (count=10)", count);
  Shape shape = x.shape;
  shape[dim] = count;
  return {{x.dtype, std::move(shape)}};
}

// ---- kernels ----

/// Lines of k indices, each of which says where in a line of v.
struct Along {
  Lines lines;  // of the indices
  LoopBox::Part v;
  Integers indices;

  explicit Along(const KernelCall& call)
      : lines(call.operands[1].shape, dim_of(call.attributes.integer("dim", 0), call.operands[1].shape)),
        v(call.loop("v")),
        indices(call.operands[1]) {
    for (std::int64_t i = 0; i < indices.size(); ++i)
      if (indices[i] < 0 || indices[i] >= v.size)
        throw error("the index{} is {} but there are {} elements along the dim: 0 to {}",
                    place_of(call, 1, i), indices[i], v.size, v.size - 1);
  }

  /// Calls `use(index i, place)` for those of the outer line `o` that lie in this rank's part of v; the place is one in
  /// the [v, inner] elements of that line.
  template <class Use>
  void in_own_part(std::int64_t o, Use use) const {
    std::int64_t i = o * lines.length * lines.inner;
    for (std::int64_t k = 0; k < lines.length; ++k)
      for (std::int64_t e = 0; e < lines.inner; ++e, ++i)
        if (const std::int64_t at = indices[i] - v.offset; at >= 0 && at < v.extent)
          use(i, at * lines.inner + e);
  }
};

void take_kernel(const KernelCall& call) {
  const Along along(call);
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const T* const x = call.operands[0].as<T>().data();
    T* const y = call.results[0].as<T>().data();
    if (along.v.extent < along.v.size) std::fill_n(y, call.results[0].size(), T(0));
    for (std::int64_t o = 0; o < along.lines.outer; ++o)
      along.in_own_part(o, [from = x + o * along.v.extent * along.lines.inner, y](
                               std::int64_t i, std::int64_t at) { y[i] = from[at]; });
  });
}

/// Short types are summed in the workspace, which has `bytes_of_sums`.
void add_kernel(const KernelCall& call) {
  const Along along(call);
  const std::int64_t line = along.v.extent * along.lines.inner;
  visit_number(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using Sum = std::conditional_t<is_short<T>, float, T>;
    const T* const x = call.operands[0].as<T>().data();
    T* y = call.results[0].as<T>().data();
    for (std::int64_t o = 0; o < along.lines.outer; ++o, y += line) {
      Sum* sums = nullptr;
      if constexpr (is_short<T>)
        sums = reinterpret_cast<Sum*>(call.workspace);
      else
        sums = y;
      std::fill_n(sums, line, Sum(0));
      along.in_own_part(o, [x, sums](std::int64_t i, std::int64_t at) {
        sums[at] = wrapping_sum(sums[at], static_cast<Sum>(x[i]));
      });
      if constexpr (is_short<T>)
        std::transform(sums, sums + line, y, [](Sum s) { return static_cast<T>(s); });
    }
  });
}

std::int64_t bytes_of_sums(const KernelCall& call) {
  const TensorView& y = call.results[0];
  if (!is_floating(y.dtype) || size_of(y.dtype) >= sizeof(float)) return 0;
  const Lines lines(y.shape, dim_of(call.attributes.integer("dim", 0), y.shape));
  return lines.length * lines.inner * static_cast<std::int64_t>(sizeof(float));
}

// ---- gradients ----

std::vector<ValueId> take_gradient(Gradient& g) {
  const Shape& x = g.type(g.in(0)).shape;
  const std::size_t dim = dim_of(g.attributes().integer("dim", 0), x);
  return {g.call("add_along_dim", {g.dy(), g.in(1)},
                 {{"dim", static_cast<std::int64_t>(dim)}, {"count", x[dim]}}),
          {}};
}

std::vector<ValueId> add_gradient(Gradient& g) {
  return {g.call("take_along_dim", {g.dy(), g.in(1)}, {{"dim", g.attributes().integer("dim", 0)}}), {}};
}

}  // namespace

std::vector<OpDef> take_along_dim() {
  return {
      {.name = "take_along_dim",
       .doc = "y[p.., k, e..] = x[p.., indices[p.., k, e..], e..], `dim` being the dim that is indexed",
       .attributes = {"dim"},
       .defaults = {{"dim", std::int64_t{0}}},
       .rule_for = take_rule,
       .linear = "{0}",
       .infer = infer_take,
       .flops = flops_of_rows,
       .gradient = take_gradient,
       .kernel = take_kernel,
       .samples = {"f32[12,4], i32[6,4]<12", "f32[4,6,2], i64[4,12,2]<6 (dim=1)",
                   "f32[6,4], i32[6,2]<4 (dim=-1)", "f32[6], i64[4]<6"},
       .torch = {.line = "take_along({0}, {1}, {dim}, {v.offset})", .functions = std::string(own_rows) + R"(
def take_along(x, indices, dim, first):
    """Elements of other ranks are zeros."""
    at, is_own = (of_all.reshape(indices.shape) for of_all in own_rows(indices, first, x.shape[dim]))
    return x.gather(dim, at).masked_fill(~is_own, 0)
)"},
       .jax = {.functions = std::string(own_rows_in_jax) + R"(
def take_along(x, indices, dim, first):
    """Elements of other ranks are zeros."""
    at, is_own = (of_all.reshape(indices.shape) for of_all in own_rows(indices, first, x.shape[dim]))
    return jnp.where(is_own, jnp.take_along_axis(x, at, dim), jnp.zeros((), x.dtype))
)"}},
      {.name = "add_along_dim",
       .doc = "y[p.., v, e..] = sum of x[p.., k, e..] where indices[p.., k, e..] = v; v runs to `count`",
       .attributes = {"count", "dim"},
       .defaults = {{"dim", std::int64_t{0}}},
       .rule_for = add_rule,
       .linear = "{0}",
       .infer = infer_add,
       .flops = flops_of_rows,
       .gradient = add_gradient,
       .kernel = add_kernel,
       .workspace = bytes_of_sums,
       .samples = {"f32[6,4], i32[6,4]<12 (count=12)", "f32[4,12,2], i64[4,12,2]<6 (count=6, dim=1)",
                   "f32[6,2], i32[6,2]<4 (count=4, dim=-1)"},
       .torch = {.line = "add_along({0}, {1}, {dim}, {v.offset}, {shape})",
                 .functions = std::string(own_rows) + R"(
def add_along(x, indices, dim, first, shape):
    """Each element is added at its index; places of other ranks are theirs."""
    at, is_own = (of_all.reshape(indices.shape) for of_all in own_rows(indices, first, shape[dim]))
    x_own = wide(x).masked_fill(~is_own, 0)
    return torch.zeros(shape, dtype=x_own.dtype, device=x.device).scatter_add(dim, at, x_own).to(x.dtype)
)"},
       .jax = {.functions = std::string(own_rows_in_jax) + R"(
def add_along(x, indices, dim, first, shape):
    """Each element is added at its index; places of other ranks are theirs."""
    at, is_own = (of_all.reshape(indices.shape) for of_all in own_rows(indices, first, shape[dim]))
    where = list(jnp.indices(indices.shape, sparse=True))
    where[dim] = jnp.where(is_own, at, shape[dim])
    own = wide(x)
    return jnp.zeros(shape, own.dtype).at[tuple(where)].add(own, mode="drop").astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
