#include "shardwright/layout/transfer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace shardwright {
namespace {

Piece piece_of(int source, const Box& region, const Box& from, const Box& to) {
  Piece p{.source = source, .extent = region.extent};
  p.from_strides = strides_of(from.extent);
  p.to_strides = strides_of(to.extent);
  for (std::size_t d = 0; d < region.extent.size(); ++d) {
    p.from_offset += (region.offset[d] - from.offset[d]) * p.from_strides[d];
    p.to_offset += (region.offset[d] - to.offset[d]) * p.to_strides[d];
  }
  return p;
}

/// The group in the order in which sources are tried: oneself first, then upwards and around, so that
/// replicas share the sending.
std::vector<int> by_nearness(const std::vector<int>& group, int rank) {
  std::vector<int> out = group;
  std::rotate(out.begin(), std::find(out.begin(), out.end(), rank), out.end());
  return out;
}

std::vector<int> group_of(const Step& step, std::span<const Mesh> meshes, int rank) {
  if (is_local(step.kind)) return {rank};
  if (step.kind == StepKind::exchange) {
    std::vector<int> all(static_cast<std::size_t>(meshes[0].size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const int mesh = std::max(step.from.mesh, step.to.mesh);
  std::vector<int> group = meshes[static_cast<std::size_t>(mesh)].group_of(rank, step.axes);
  std::sort(group.begin(), group.end());
  return group;
}

bool is_empty(const Box& b) {
  return std::any_of(b.extent.begin(), b.extent.end(), [](auto e) { return e == 0; });
}

}  // namespace

Transfer transfer_of(const Step& step, std::span<const Mesh> meshes, const Shape& shape, int rank) {
  const Mesh& from_mesh = meshes[static_cast<std::size_t>(step.from.mesh)];
  const Mesh& to_mesh = meshes[static_cast<std::size_t>(step.to.mesh)];
  const Box to = box(step.to, to_mesh, shape, rank);
  Transfer t{.kind = step.kind, .group = group_of(step, meshes, rank), .pieces = {}};
  t.from_shape = box(step.from, from_mesh, shape, rank).extent;
  t.to_shape = to.extent;
  t.reduces = step.kind == StepKind::all_reduce || step.kind == StepKind::reduce_scatter;
  t.reduction = step.reduction;
  if (step.kind == StepKind::mask) {
    const Mesh& mesh = meshes[static_cast<std::size_t>(step.to.mesh)];
    t.clears = mesh.index_along(rank, step.axes) != 0;
  }
  if (t.clears) return t;
  if (t.reduces) {
    for (int q : t.group) t.pieces.push_back(piece_of(q, to, box(step.from, from_mesh, shape, q), to));
    return t;
  }
  std::vector<Box> done;  // boxes of sources already used; replicas hold the same
  for (int q : by_nearness(t.group, rank)) {
    const Box from = box(step.from, from_mesh, shape, q);
    const Box region = intersect(from, to);
    if (is_empty(region) || std::find(done.begin(), done.end(), from) != done.end()) continue;
    done.push_back(from);
    t.pieces.push_back(piece_of(q, region, from, to));
  }
  return t;
}

Transfer shifted(Transfer transfer, int first_rank) {
  for (int& rank : transfer.group) rank += first_rank;
  for (Piece& piece : transfer.pieces) piece.source += first_rank;
  return transfer;
}

namespace {

/// From whom `rank` takes which part: the holders in turn, so that replicas share the giving.
std::vector<Piece> pieces_for(const Placement& from, const Placement& to, const Shape& shape, int rank) {
  std::vector<Piece> out;
  if (!to.has(rank)) return out;
  const Box own = to.box_on(rank, shape);
  const int count = from.mesh->size();
  const int start =
      from.has(rank) ? rank - from.first_rank : (rank - to.first_rank) * count / to.mesh->size();
  std::vector<Box> done;  // boxes of sources already used; replicas hold the same
  for (int i = 0; i < count; ++i) {
    const int source = from.first_rank + (start + i) % count;
    const Box there = from.box_on(source, shape);
    const Box region = intersect(there, own);
    if (is_empty(region) || std::find(done.begin(), done.end(), there) != done.end()) continue;
    done.push_back(there);
    out.push_back(piece_of(source, region, there, own));
  }
  return out;
}

}  // namespace

Transfer transfer_between(const Placement& from, const Placement& to, const Shape& shape, int rank) {
  const auto joined = [&](const Placement& p, std::vector<int>& ranks) {
    for (int r = 0; r < p.mesh->size(); ++r) ranks.push_back(p.first_rank + r);
  };
  std::vector<int> ranks;
  joined(from, ranks);
  joined(to, ranks);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::map<int, int> head;  // union-find over the ranks
  for (int r : ranks) head[r] = r;
  const auto find = [&](int r) {
    while (head[r] != r) r = head[r];
    return r;
  };
  Transfer t{.kind = StepKind::exchange, .group = {}, .pieces = {}, .from_shape = {}, .to_shape = {}};
  for (int r : ranks)
    for (Piece& piece : pieces_for(from, to, shape, r)) {
      const int a = find(r), b = find(piece.source);
      head[std::max(a, b)] = std::min(a, b);
      if (r == rank) t.pieces.push_back(std::move(piece));
    }
  for (int r : ranks)
    if (find(r) == find(rank)) t.group.push_back(r);
  if (from.has(rank)) t.from_shape = from.box_on(rank, shape).extent;
  if (to.has(rank)) t.to_shape = to.box_on(rank, shape).extent;
  return t;
}

void copy_piece(const Piece& piece, const std::byte* from, std::byte* to, std::size_t element_bytes) {
  for_each_run(piece, [&](std::int64_t f, std::int64_t t, std::int64_t n) {
    std::memcpy(to + static_cast<std::size_t>(t) * element_bytes,
                from + static_cast<std::size_t>(f) * element_bytes,
                static_cast<std::size_t>(n) * element_bytes);
  });
}

}  // namespace shardwright
