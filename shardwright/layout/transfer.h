// What one rank copies from whom in one step: the executable meaning of a redistribution step.
//
// Everything is computed from the boxes of the two layouts, never from local shapes, so unequal shards and
// layouts of different meshes need nothing special. Communicators execute transfers; tests execute the same
// transfers on simulated shards.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// A box of the result that comes from one rank's operand. Offsets are in elements from the start of the
/// local tensors; both sides are row-major with their own strides.
struct Piece {
  int source = 0;  // rank
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  Shape extent;
  Shape from_strides;
  Shape to_strides;
};

struct Transfer {
  StepKind kind = StepKind::slice;
  std::vector<int> group;  // ranks that take part, ascending; only oneself for local steps
  int channel = 0;         // members start the transfers of one channel in one order, whatever else they do
  std::vector<Piece> pieces;  // moving steps: together they fill the result once.
                              // reducing steps: one piece per member of the group, over the same box
  bool reduces = false;
  Reduction reduction = Reduction::sum;
  bool clears = false;                  // mask: the result is zero on this rank
  std::optional<ExpertSets> sets = {};  // of rows that are routed: by member of the group
  Shape from_shape;                     // local shapes on this rank
  Shape to_shape;
};

/// The transfer of `step` on `rank` for a tensor of global shape `shape`.
Transfer transfer_of(const Step& step, std::span<const Mesh> meshes, const Shape& shape, int rank);
/// The same without its pieces, which are as many as the group has members.
Transfer outline_of(const Step& step, std::span<const Mesh> meshes, const Shape& shape, int rank);

/// The transfer of ranks of a stage: `first_rank` is the stage's first among all ranks.
Transfer shifted(Transfer transfer, int first_rank);

/// Where a tensor lies: in a layout, on a mesh whose ranks begin at `first_rank`.
struct Placement {
  const Mesh* mesh = nullptr;
  Layout layout;
  int first_rank = 0;

  bool has(int rank) const { return rank >= first_rank && rank < first_rank + mesh->size(); }
  Box box_on(int rank, const Shape& shape) const { return box(layout, *mesh, shape, rank - first_rank); }
};

/// No element lies in it.
bool is_empty(const Box& box);

/// What the ranks of two placements take part in when a tensor of global shape `shape` moves from one to the other; the
/// ranks are others or the same. The group is who gives to whom, directly or over others; a rank that neither gives nor
/// takes has a group of its own. Neither layout is partial. The placements' meshes outlive this.
/// Cost: O(ranks * boxes that each meets), nothing where each rank gives to its counterpart; of a rank that is asked for
/// its group and its pieces.
class TransfersBetween {
 public:
  TransfersBetween(const Placement& from, const Placement& to, const Shape& shape);

  /// What `rank`, of one of them, takes part in.
  Transfer of(int rank) const;

 private:
  struct HeldBox;
  class HeldBoxes;

  void find_groups();
  std::vector<int> group_of_straight(int rank) const;
  std::vector<int> group_of(int rank) const;
  std::vector<Piece> pieces_of(int rank) const;
  /// Takers begin with different holders, so that replicas share the giving.
  int first_source(int rank) const;
  int place_of(int rank) const;
  int head_of(int place);
  void join(int a, int b);

  Placement from_, to_;
  Shape shape_;
  bool goes_straight_ = false;  // both lie alike; what follows is empty then
  std::shared_ptr<const HeldBoxes> held_;
  // Ranks have places, those of `from` first. Who is joined, directly or over others, has one place as head.
  std::vector<int> heads_;
  std::vector<int> begins_;   // by head: of its ranks among the members
  std::vector<int> members_;  // ranks by head, ascending
};

/// Moves `region` from a tensor that is the part `from` of a whole one to a tensor that is the part `to`.
Piece piece_of(const Box& region, const Box& from, const Box& to, int source = 0);

/// Calls `use(from offset, to offset)` for each row, which is all of the last dim on both sides.
template <class F>
void for_each_row(const Piece& piece, F use);

/// Contiguous on both sides.
bool is_one_run(const Piece& piece);

/// Copies `piece` of elements of `element_bytes` bytes; rows that are contiguous on both sides in one go.
void copy_piece(const Piece& piece, const std::byte* from, std::byte* to, std::size_t element_bytes);

/// Calls `use(from offset, to offset, count)` for each run of elements that is contiguous on both sides.
/// Allocates nothing.
template <class F>
void for_each_run(const Piece& piece, F use) {
  constexpr std::size_t max_rank = 32;
  std::size_t rank = piece.extent.size();
  require(rank <= max_rank, "a tensor of {} dims; {} are possible", rank, max_rank);
  std::int64_t run = 1;
  // Merge minor dims as long as both sides are contiguous over them.
  while (rank > 0 && piece.from_strides[rank - 1] == run && piece.to_strides[rank - 1] == run)
    run *= piece.extent[--rank];
  for (std::int64_t d : piece.extent)
    if (d == 0) return;
  std::array<std::int64_t, max_rank> index{};
  std::int64_t from = piece.from_offset, to = piece.to_offset;
  for (;;) {
    use(from, to, run);
    std::size_t d = rank;
    while (d > 0) {
      --d;
      from += piece.from_strides[d];
      to += piece.to_strides[d];
      if (++index[d] < piece.extent[d]) break;
      from -= index[d] * piece.from_strides[d];
      to -= index[d] * piece.to_strides[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

template <class F>
void for_each_row(const Piece& piece, F use) {
  Piece rows = piece;
  for (Shape* s : {&rows.extent, &rows.from_strides, &rows.to_strides}) s->pop_back();
  for_each_run(rows, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) use(from + i, to + i);
  });
}

}  // namespace shardwright
