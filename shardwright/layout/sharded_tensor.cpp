#include "shardwright/layout/sharded_tensor.h"

#include <algorithm>
#include <limits>

#include "shardwright/layout/transfer.h"

namespace shardwright {
namespace {

Piece region(const Box& part, const Shape& whole, bool is_source_whole) {
  Piece p{.extent = part.extent};
  const Shape inside = strides_of(whole);
  const Shape own = strides_of(part.extent);
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < whole.size(); ++d) offset += part.offset[d] * inside[d];
  p.from_strides = is_source_whole ? inside : own;
  p.to_strides = is_source_whole ? own : inside;
  (is_source_whole ? p.from_offset : p.to_offset) = offset;
  return p;
}

template <class T>
T nothing(Reduction reduction) {
  if (reduction == Reduction::sum) return T{};
  if constexpr (std::is_same_v<T, bool>)
    return false;
  else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
    return T(-std::numeric_limits<float>::infinity());
  else if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

void fill_nothing(Tensor& t, Reduction reduction) {
  visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
    std::fill(t.as<T>().begin(), t.as<T>().end(), nothing<T>(reduction));
  });
}

void reduce_into(Tensor& into, const Tensor& from, Reduction reduction) {
  visit(into.dtype(), [&]<class T>(std::type_identity<T>) {
    auto a = into.as<T>();
    const auto b = from.as<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto x = static_cast<Compute<T>>(a[i]);
      const auto y = static_cast<Compute<T>>(b[i]);
      const auto larger = x < y || y != y ? y : x;  // a NaN wins
      a[i] = static_cast<T>(reduction == Reduction::sum ? static_cast<Compute<T>>(x + y) : larger);
    }
  });
}

}  // namespace

Tensor take(const Tensor& whole, const Box& part) {
  Tensor out({whole.dtype(), part.extent});
  copy_piece(region(part, whole.shape(), true), whole.bytes().data(), out.bytes().data(),
             size_of(whole.dtype()));
  return out;
}

void put(Tensor& whole, const Box& where, const Tensor& part) {
  copy_piece(region(where, whole.shape(), false), part.bytes().data(), whole.bytes().data(),
             size_of(whole.dtype()));
}

std::vector<Tensor> split(const Tensor& whole, const Layout& layout, const Mesh& mesh) {
  check(layout, mesh, whole.shape());
  std::vector<Tensor> parts;
  for (int r = 0; r < mesh.size(); ++r) {
    parts.push_back(take(whole, box(layout, mesh, whole.shape(), r)));
    if (mesh.index_along(r, layout.sum) != 0) fill_nothing(parts.back(), Reduction::sum);
    if (mesh.index_along(r, layout.max) != 0) fill_nothing(parts.back(), Reduction::max);
  }
  return parts;
}

Tensor join(std::span<const Tensor> parts, const Layout& layout, const Mesh& mesh, const Shape& shape) {
  require(static_cast<int>(parts.size()) == mesh.size(), "{} parts for {}", parts.size(), to_text(mesh));
  Tensor whole({parts[0].dtype(), shape});
  const Axes partial = layout.sum.with(layout.max);
  const Axes replicated_over = mesh.all_axes().without(layout.used());
  std::vector<Tensor> first(parts.size());  // by the lowest replica of each shard
  for (int r = 0; r < mesh.size(); ++r) {
    if (mesh.index_along(r, partial) != 0) continue;
    Tensor value = parts[static_cast<std::size_t>(r)];
    for (int q : mesh.group_of(r, partial))
      if (q != r)
        reduce_into(value, parts[static_cast<std::size_t>(q)],
                    layout.max.empty() ? Reduction::sum : Reduction::max);
    const Box where = box(layout, mesh, shape, r);
    const int owner = mesh.group_of(r, replicated_over).front();
    if (owner == r)
      put(whole, where, value);
    else if (value != take(whole, where))
      throw error("replicas differ: rank {} and rank {} of layout {}", owner, r, to_text(layout, mesh));
  }
  return whole;
}

std::vector<Tensor> apply(const Step& step, std::span<const Mesh> meshes, const Shape& shape,
                          std::span<const Tensor> parts) {
  std::vector<Tensor> out;
  for (int r = 0; r < meshes[0].size(); ++r) {
    const Transfer t = transfer_of(step, meshes, shape, r);
    Tensor result({parts[0].dtype(), t.to_shape});
    bool is_first = true;
    for (const Piece& piece : t.pieces) {
      Tensor part(result.type());
      copy_piece(piece, parts[static_cast<std::size_t>(piece.source)].bytes().data(),
                 (t.reduces ? part : result).bytes().data(), size_of(result.dtype()));
      if (!t.reduces) continue;
      if (is_first)
        result = std::move(part);
      else
        reduce_into(result, part, t.reduction);
      is_first = false;
    }
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace shardwright
