// Dims in another order: dim d of the result is dim dims[d] of the operand.

#include <algorithm>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Throws: Error unless `dims` names every dim of the operand once.
std::vector<std::size_t> order_of(const Call& call) {
  check_count(call, 1);
  const Shape& shape = call.operands[0].shape;
  const std::vector<std::int64_t> dims = call.attributes.integers("dims");
  std::vector<bool> seen(shape.size(), false);
  std::vector<std::size_t> order;
  for (std::int64_t d : dims) {
    order.push_back(dim_of(d, shape));
    seen[order.back()] = true;
  }
  if (dims.size() != shape.size() || std::find(seen.begin(), seen.end(), false) != seen.end())
    throw error("dims={} should name each of the {} dims of {} once", to_text(dims), shape.size(),
                to_text(call.operands[0]));
  return order;
}

std::string rule(const Call& call) {
  std::vector<std::string> to;
  for (std::size_t d : order_of(call)) to.push_back(loop_name(d));
  return fmt::format("{} -> {}", tensor_text(to.size()), tensor_text(to));
}

std::vector<ValueId> gradient(Gradient& g) {
  const Shape& shape = g.type(g.in(0)).shape;
  const std::vector<std::int64_t> dims = g.attributes().integers("dims");
  std::vector<std::int64_t> inverse(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d)
    inverse[dim_of(dims[d], shape)] = static_cast<std::int64_t>(d);
  return {g.call("transpose", {g.dy()}, {{"dims", inverse}})};
}

/// y[i, j] = x[j, i] for a tile; x steps by `x_step` along j, y by `y_step` along i. By way of a copy, so that each
/// line of memory is touched once: lines at a power of two from each other push one another out of the cache.
template <std::int64_t tile, class T>
void transpose_tile(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t rows,
                    std::int64_t columns) {
  T copy[tile][tile];
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) copy[j][i] = x[j * x_step + i];
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[i * y_step + j] = copy[j][i];
}

/// The same for a matrix: tiles as wide as a line of memory, in panels of x that do not need too many pages.
template <class T>
void transpose_matrix(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t rows,
                      std::int64_t columns) {
  constexpr std::int64_t tile = 64 / sizeof(T), panel = 256;
  for (std::int64_t start = 0; start < columns; start += panel)
    for (std::int64_t i = 0; i < rows; i += tile)
      for (std::int64_t j = start; j < std::min(start + panel, columns); j += tile) {
        const std::int64_t m = std::min(tile, rows - i), n = std::min(tile, columns - j);
        const T* const from = x + j * x_step + i;
        T* const to = y + i * y_step + j;
        if (m == tile && n == tile)
          transpose_tile<tile>(from, x_step, to, y_step, tile, tile);
        else
          transpose_tile<tile>(from, x_step, to, y_step, m, n);
      }
}

/// Moves elements of `sizeof(T)` bytes. Of y's loops the innermost steps by 1; the one in which x steps by 1 is
/// the same, or the two are a matrix to be transposed.
template <class T>
void move(const Walk<2>& walk, const T* x, T* y) {
  const auto [n, strides] = walk.row();
  if (strides[1] == 1)
    return for_each_row(walk, [&, n = n](const auto& at) { std::copy_n(x + at[1], n, y + at[0]); });
  Walk<2> around;
  Pass<2> column;
  for (const Pass<2>& pass : walk.around_row())
    if (pass.strides[1] == 1)
      column = pass;
    else
      around.surround(pass);
  for_each_point(around.passes(), [&, n = n, step = strides[1]](const auto& at) {
    transpose_matrix(x + at[1], step, y + at[0], column.strides[0], column.extent, n);
  });
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  if (y.size() == 0) return;
  const auto dims = dims_in(call.attributes);
  Walk<2> walk;
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    const std::size_t from = dim_of(dims[d], x.shape);
    const std::int64_t inner = element_count(std::span(x.shape).subspan(from + 1));
    walk.surround({x.shape[from], {stride, inner}});
    stride *= x.shape[from];
  }
  const auto run = [&]<class T>(std::type_identity<T>) {
    vectorized([walk, from = reinterpret_cast<const T*>(x.data), to = reinterpret_cast<T*>(y.data)] {
      move(walk, from, to);
    });
  };
  switch (size_of(y.dtype)) {
    case 1: return run(std::type_identity<std::uint8_t>{});
    case 2: return run(std::type_identity<std::uint16_t>{});
    case 4: return run(std::type_identity<std::uint32_t>{});
    default: return run(std::type_identity<std::uint64_t>{});
  }
}

}  // namespace

std::vector<OpDef> transpose() {
  return {{
      .name = "transpose",
      .doc = "dim d of y is dim dims[d] of x",
      .attributes = {"dims"},
      .rule_for = rule,
      .linear = "{0}",
      .gradient = gradient,
      .kernel = kernel,
      .samples = {"f32[4,6] (dims=[1,0])", "f32[2,6,4] (dims=[1,2,0])", "f32[2,3,4,6] (dims=[0,2,1,3])",
                  "f32[2,6,4] (dims=[0,-1,1])"},
  }};
}

}  // namespace shardwright::ops
