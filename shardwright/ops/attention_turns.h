// Attention in turns, for keys that go round: queries and keys lie in `pieces` equal pieces of the sequence, and in turn j
// queries of piece p attend to keys of piece p - j. A mask has the rows of these queries and all keys. What comes of it is merged with what came of the turns before by the
// logarithm of the sum of e^score, l (Liu, Zaharia, Abbeel: Ring Attention with Blockwise Transformers, 2023):
//
//   l' = log(e^l + e^l_j),   y' = e^(l - l') y + e^(l_j - l') y_j
//
// of which the largest score m and the sum of e^(score - m) are carried on: a mask of -1e30 leaves no room in one number.
// Where elements stand in an order of 2 `pieces` blocks (sequence_order.h), a piece is two runs of neighbours.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/sequence_order.h"

namespace shardwright::ops {

/// Neighbours in the sequence that stand side by side.
struct Run {
  std::int64_t at = 0;     // in its piece
  std::int64_t place = 0;  // of the first, in the sequence
  std::int64_t count = 0;
};

/// A piece of `length` elements as runs: one, or two in an order of blocks.
struct Runs {
  std::array<Run, 2> list;
  std::size_t count = 1;
  auto begin() const { return list.begin(); }
  auto end() const { return list.begin() + static_cast<std::ptrdiff_t>(count); }
};
Runs runs_of_piece(std::int64_t piece, std::int64_t length, std::int64_t order);

/// Pairs of a query and a key that a rank with one piece computes in a turn. `pieces` of `length` elements each.
struct TurnOf {
  std::int64_t pieces = 1, length = 1;
  std::int64_t order = 0;
  bool is_causal = true;
};
std::int64_t pairs_in_turn(const TurnOf& what, std::int64_t piece, std::int64_t turn);

/// Attention and its gradient in turns: of their operands, and their attributes with `pieces`, and `order` if there is one.
std::vector<ValueId> attention_in_turns(Builder& builder, std::span<const ValueId> operands,
                                        const Attributes& attributes);
/// Pre: y was made by attention_in_turns.
std::vector<ValueId> attention_grad_in_turns(Builder& builder, std::span<const ValueId> operands,
                                             const Attributes& attributes);

}  // namespace shardwright::ops
