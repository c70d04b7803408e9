#include "shardwright/layout/transfer.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace shardwright {
namespace {

/// The group in the order in which sources are tried: oneself first, then upwards and around, so that
/// replicas share the sending.
std::vector<int> by_nearness(const std::vector<int>& group, int rank) {
  std::vector<int> out = group;
  std::rotate(out.begin(), std::find(out.begin(), out.end(), rank), out.end());
  return out;
}

std::vector<int> group_of(const Step& step, std::span<const Mesh> meshes, int rank) {
  if (!is_collective(step.kind)) return {rank};
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

}  // namespace

bool is_empty(const Box& box) {
  return std::any_of(box.extent.begin(), box.extent.end(), [](auto e) { return e == 0; });
}

Piece piece_of(const Box& region, const Box& from, const Box& to, int source) {
  Piece p{.source = source, .extent = region.extent};
  p.from_strides = strides_of(from.extent);
  p.to_strides = strides_of(to.extent);
  for (std::size_t d = 0; d < region.extent.size(); ++d) {
    p.from_offset += (region.offset[d] - from.offset[d]) * p.from_strides[d];
    p.to_offset += (region.offset[d] - to.offset[d]) * p.to_strides[d];
  }
  return p;
}

bool is_one_run(const Piece& p) {
  std::int64_t run = 1;
  std::size_t d = p.extent.size();
  while (d > 0 && p.from_strides[d - 1] == run && p.to_strides[d - 1] == run) run *= p.extent[--d];
  return std::all_of(p.extent.begin(), p.extent.begin() + static_cast<std::ptrdiff_t>(d),
                     [](auto e) { return e == 1; });
}

Transfer outline_of(const Step& step, std::span<const Mesh> meshes, const Shape& shape, int rank) {
  Transfer t{.kind = step.kind, .group = group_of(step, meshes, rank), .pieces = {}};
  t.from_shape = box(step.from, meshes[at(step.from.mesh)], shape, rank).extent;
  t.to_shape = box(step.to, meshes[at(step.to.mesh)], shape, rank).extent;
  t.reduces = step.kind == StepKind::all_reduce || step.kind == StepKind::reduce_scatter;
  t.reduction = step.reduction;
  if (step.kind == StepKind::mask) {
    const Mesh& mesh = meshes[static_cast<std::size_t>(step.to.mesh)];
    t.clears = mesh.index_along(rank, step.axes) != 0;
  }
  if (step.routing && !t.clears)
    t.sets.emplace(*step.routing, step.kind == StepKind::all_gather ? step.to : step.from,
                   meshes[static_cast<std::size_t>(std::max(step.from.mesh, step.to.mesh))], t.group);
  return t;
}

Transfer transfer_of(const Step& step, std::span<const Mesh> meshes, const Shape& shape, int rank) {
  Transfer t = outline_of(step, meshes, shape, rank);
  if (t.clears) return t;
  const Mesh& from_mesh = meshes[at(step.from.mesh)];
  const Box to = box(step.to, meshes[at(step.to.mesh)], shape, rank);
  if (t.reduces) {
    for (int q : t.group) t.pieces.push_back(piece_of(to, box(step.from, from_mesh, shape, q), to, q));
    return t;
  }
  // Boxes of sources already used, by where they begin: no two of a layout begin at one element. Replicas hold the same.
  std::set<std::int64_t> done;
  const Shape strides = strides_of(shape);
  for (int q : by_nearness(t.group, rank)) {
    const Box from = box(step.from, from_mesh, shape, q);
    const Box region = intersect(from, to);
    if (is_empty(region)) continue;
    const std::int64_t begin =
        std::inner_product(from.offset.begin(), from.offset.end(), strides.begin(), std::int64_t{0});
    if (done.insert(begin).second) t.pieces.push_back(piece_of(region, from, to, q));
  }
  return t;
}

Transfer shifted(Transfer transfer, int first_rank) {
  for (int& rank : transfer.group) rank += first_rank;
  for (Piece& piece : transfer.pieces) piece.source += first_rank;
  return transfer;
}

/// A part of a tensor and who holds it, ascending.
struct TransfersBetween::HeldBox {
  Box box;
  std::vector<int> ranks;
};

/// The parts that ranks hold, to be found by where they lie in the dim that is cut into most.
class TransfersBetween::HeldBoxes {
 public:
  HeldBoxes(const Placement& p, const Shape& shape) {
    std::map<std::pair<Shape, Shape>, std::size_t> known;
    for (int rank = p.first_rank; p.has(rank); ++rank) {
      Box box = p.box_on(rank, shape);
      if (is_empty(box)) continue;
      const auto [place, is_new] = known.try_emplace({box.offset, box.extent}, boxes_.size());
      if (is_new) boxes_.push_back({std::move(box), {}});
      boxes_[place->second].ranks.push_back(rank);
    }
    std::size_t most = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::set<std::int64_t> offsets;
      for (const HeldBox& held : boxes_) offsets.insert(held.box.offset[d]);
      if (offsets.size() > most) most = offsets.size(), dim_ = d;
    }
    if (shape.empty()) return;
    std::ranges::stable_sort(boxes_, {}, [this](const HeldBox& held) { return held.box.offset[dim_]; });
    for (const HeldBox& held : boxes_) widest_ = std::max(widest_, held.box.extent[dim_]);
  }

  /// Calls `use(held box, region, source)` for each part of `own` that is held: of the holders the first from `start`
  /// on, and around, gives it.
  template <class F>
  void for_each_source(int start, const Box& own, F use) const {
    for (auto there = first_near(own); there != boxes_.end() && !is_behind(*there, own); ++there) {
      const Box region = intersect(there->box, own);
      if (is_empty(region)) continue;
      const auto next = std::lower_bound(there->ranks.begin(), there->ranks.end(), start);
      use(there->box, region, next == there->ranks.end() ? there->ranks.front() : *next);
    }
  }

 private:
  std::vector<HeldBox>::const_iterator first_near(const Box& own) const {
    if (own.offset.empty()) return boxes_.begin();
    return std::ranges::upper_bound(boxes_, own.offset[dim_] - widest_, {},
                                    [this](const HeldBox& held) { return held.box.offset[dim_]; });
  }
  bool is_behind(const HeldBox& held, const Box& own) const {
    return !own.offset.empty() && held.box.offset[dim_] >= own.offset[dim_] + own.extent[dim_];
  }

  std::vector<HeldBox> boxes_;  // by their offsets in `dim_`
  std::size_t dim_ = 0;
  std::int64_t widest_ = 0;
};

TransfersBetween::TransfersBetween(const Placement& from, const Placement& to, const Shape& shape)
    : from_(from), to_(to), shape_(shape) {
  const bool is_apart = to_.first_rank >= from_.first_rank + from_.mesh->size() ||
                        from_.first_rank >= to_.first_rank + to_.mesh->size();
  goes_straight_ = *from_.mesh == *to_.mesh && from_.layout == to_.layout &&
                   (is_apart || from_.first_rank == to_.first_rank);
  if (!goes_straight_) find_groups();
}

void TransfersBetween::find_groups() {
  held_ = std::make_shared<const HeldBoxes>(from_, shape_);
  std::vector<int> ranks;
  for (const Placement* p : {&from_, &to_})
    for (int rank = p->first_rank; p->has(rank); ++rank)
      if (p == &from_ || !from_.has(rank)) ranks.push_back(rank);
  std::ranges::sort(ranks);
  heads_.resize(at(from_.mesh->size() + to_.mesh->size()));
  std::iota(heads_.begin(), heads_.end(), 0);
  for (int rank = to_.first_rank; to_.has(rank); ++rank)
    held_->for_each_source(
        first_source(rank), to_.box_on(rank, shape_),
        [&](const Box&, const Box&, int source) { join(place_of(rank), place_of(source)); });
  begins_.resize(heads_.size() + 1);
  for (int rank : ranks) ++begins_[at(head_of(place_of(rank))) + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  members_.resize(ranks.size());
  std::vector<int> next(begins_.begin(), begins_.end() - 1);
  for (int rank : ranks) members_[at(next[at(heads_[at(place_of(rank))])]++)] = rank;
}

Transfer TransfersBetween::of(int rank) const {
  require(from_.has(rank) || to_.has(rank), "rank {} has no part in what moves", rank);
  Transfer out{.kind = StepKind::exchange, .group = {}, .pieces = {}};
  if (from_.has(rank)) out.from_shape = from_.box_on(rank, shape_).extent;
  if (to_.has(rank)) out.to_shape = to_.box_on(rank, shape_).extent;
  out.group = goes_straight_ ? group_of_straight(rank) : group_of(rank);
  if (to_.has(rank)) out.pieces = pieces_of(rank);
  return out;
}

std::vector<int> TransfersBetween::group_of_straight(int rank) const {
  const int number = rank - (from_.has(rank) ? from_ : to_).first_rank;
  const int giver = from_.first_rank + number, taker = to_.first_rank + number;
  if (giver == taker || is_empty(to_.box_on(taker, shape_))) return {rank};
  return {std::min(giver, taker), std::max(giver, taker)};
}

std::vector<int> TransfersBetween::group_of(int rank) const {
  const auto head = at(heads_[at(place_of(rank))]);
  return {members_.begin() + begins_[head], members_.begin() + begins_[head + 1]};
}

std::vector<Piece> TransfersBetween::pieces_of(int rank) const {
  const Box own = to_.box_on(rank, shape_);
  if (is_empty(own)) return {};
  if (goes_straight_) return {piece_of(own, own, own, from_.first_rank + rank - to_.first_rank)};
  std::vector<Piece> out;
  const int start = first_source(rank);
  held_->for_each_source(start, own, [&](const Box& held, const Box& region, int source) {
    out.push_back(piece_of(region, held, own, source));
  });
  std::ranges::sort(out, {}, [start](const Piece& p) { return std::pair(p.source < start, p.source); });
  return out;
}

int TransfersBetween::first_source(int rank) const {
  if (from_.has(rank)) return rank;
  return from_.first_rank +
         static_cast<int>(std::int64_t{rank - to_.first_rank} * from_.mesh->size() / to_.mesh->size());
}

int TransfersBetween::place_of(int rank) const {
  return from_.has(rank) ? rank - from_.first_rank : from_.mesh->size() + rank - to_.first_rank;
}

int TransfersBetween::head_of(int place) {
  int& above = heads_[at(place)];
  return above == place ? place : above = head_of(above);
}

void TransfersBetween::join(int a, int b) { heads_[at(head_of(std::max(a, b)))] = head_of(std::min(a, b)); }

void copy_piece(const Piece& piece, const std::byte* from, std::byte* to, std::size_t element_bytes) {
  for_each_run(piece, [&](std::int64_t f, std::int64_t t, std::int64_t n) {
    std::memcpy(to + static_cast<std::size_t>(t) * element_bytes,
                from + static_cast<std::size_t>(f) * element_bytes,
                static_cast<std::size_t>(n) * element_bytes);
  });
}

}  // namespace shardwright
