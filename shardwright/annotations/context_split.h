// Context parallelism as strategies: everything that has a sequence is split by it over cp. An operator that asks a whole
// sequence for each element, attention (its rule has a dim that goes round, layout/rule.h), has three ways:
//
//   gather     {s: cp}          queries are split, and keys gathered
//   exchange   {h: cp}          heads are split instead, of the whole sequence: an all_to_all before and behind
//   ring       {s: cp, t: cp}   both are split; keys go round, and each part of them is attended to in its turn
//
// Where cp is two axes, heads are exchanged over the inner one, and what is outside of it goes another way:
//
//   exchange:4+ring   {h: cp1, s: cp0, t: cp0}
//
// Each is a layout of its operands; what has to be sent follows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Some dim of it may go round.
bool has_round(const Rule& rule);

/// Places of the longest sequence that something asks as a whole; 0: nothing does.
std::int64_t longest_sequence(const Graph& graph);

/// Whether heads can be exchanged among the inner `exchanged` devices of so many, and the rest go another way.
bool is_part_of(int exchanged, int context);

/// How cp is cut into axes, the outer one first. Throws: Error if no part of it can exchange heads as is asked.
std::vector<int> context_parts(const Constraints& asked);

class ContextSplit {
 public:
  ContextSplit() = default;
  /// All must outlive it. Without axes nothing is split; of two, heads are exchanged over the inner one. `asked`: the ways.
  ContextSplit(const Graph* graph, const SequenceDims* sequence, const Mesh* mesh, Axes axes,
               std::optional<ContextWays> asked)
      : graph_(graph), sequence_(sequence), mesh_(mesh), axes_(axes), asked_(asked) {}

  /// Splits what `node` does by the sequence, if it has one.
  void by_sequence(const Node& node, const Rule& rule, Strategy& s);
  /// The same of what has a dim that goes round; all else of `s` is decided. Throws: Error if it cannot be so.
  void around(const Node& node, const Rule& rule, Strategy& s);

  bool is_in(const Strategy& s) const;
  /// Of the last node that was split.
  const std::string& why() const { return why_; }
  bool splits() const { return splits_; }
  /// Something asks keys of the whole sequence, which are had one way or another.
  bool has_ways() const { return has_ways_; }
  /// So many inner devices of cp that exchange heads would make less to be sent, where nobody said how; 1: none.
  int exchanged() const { return exchanged_; }

 private:
  /// Loop dims of the sequence: of what asks, and of what may go round for it; -1: there is none.
  struct RoundDims {
    int asking = -1, round = -1;
  };
  RoundDims round_dims(const Node& node, const Rule& rule) const;
  bool is_sequence(const Node& node, std::size_t operand, std::size_t d) const;
  /// Of two axes the one that heads are exchanged over.
  Axes inner() const { return axes_.size() > 1 ? axes_.without(axes_.prefix(1)) : Axes(); }
  /// Queries of a part of the sequence over some axes; keys are gathered, or go round if they can.
  struct Parted {
    Strategy gathered;
    std::optional<Strategy> round = {};
    std::string why;  // it cannot go round
  };
  Parted parted(const Node& node, const Rule& rule, const Strategy& s, const Axes& axes) const;
  /// All that there are; `both`: with heads exchanged over the inner axis.
  struct Ways {
    Parted parted;
    std::optional<Strategy> exchanged;
    std::optional<Parted> both;
  };
  void take_asked(const Node& node, Ways ways, Strategy& s);
  void take_least(const Rule& rule, int round, Ways ways, Strategy& s);
  void take_parted(Parted parted, bool goes_round, bool has_heads, Strategy& s);
  void take_exchanged(Strategy exchanged, Strategy& s);
  int head_loop(const Rule& rule, const Strategy& s) const;
  int heads_of_keys(const Rule& rule, const Strategy& s, int round) const;
  std::optional<Strategy> exchanged(const Rule& rule, const Strategy& s, const Axes& axes) const;

  const Graph* graph_ = nullptr;
  const SequenceDims* sequence_ = nullptr;
  const Mesh* mesh_ = nullptr;
  Axes axes_;
  std::optional<ContextWays> asked_;
  std::string why_;
  bool splits_ = false, has_ways_ = false;
  int exchanged_ = 1;
};

}  // namespace shardwright
