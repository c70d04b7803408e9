// Context parallelism as strategies: everything that has a sequence is split by it over cp. An operator that asks a whole
// sequence for each element, attention (its rule has a dim that goes round, layout/rule.h), has three ways:
//
//   gather     {s: cp}          queries are split, and keys gathered
//   exchange   {h: cp}          heads are split instead, of the whole sequence: an all_to_all before and behind
//   ring       {s: cp, t: cp}   both are split; keys go round, and each part of them is attended to in its turn
//
// Each is a layout of its operands; what has to be sent follows.
#pragma once

#include <optional>
#include <string>

#include "shardwright/annotations/sequence_dims.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Some dim of it may go round.
bool has_round(const Rule& rule);

/// Places of the longest sequence that something asks as a whole; 0: nothing does.
std::int64_t longest_sequence(const Graph& graph);

class ContextSplit {
 public:
  ContextSplit() = default;
  /// All must outlive it. Without axes nothing is split. `way`: what was asked for.
  ContextSplit(const Graph* graph, const SequenceDims* sequence, const Mesh* mesh, Axes axes,
               std::optional<ContextWay> way)
      : graph_(graph), sequence_(sequence), mesh_(mesh), axes_(axes), asked_(way) {}

  /// Splits what `node` does by the sequence, if it has one.
  void by_sequence(const Node& node, const Rule& rule, Strategy& s);
  /// The same of what has a dim that goes round; all else of `s` is decided. Throws: Error if it cannot be so.
  void around(const Node& node, const Rule& rule, Strategy& s);

  bool is_in(const Strategy& s) const;
  /// Of the last node that was split.
  const std::string& why() const { return why_; }
  bool splits() const { return splits_; }

 private:
  /// Loop dims of the sequence: of what asks, and of what may go round for it; -1: there is none.
  struct RoundDims {
    int asking = -1, round = -1;
  };
  RoundDims round_dims(const Node& node, const Rule& rule) const;
  bool is_sequence(const Node& node, std::size_t operand, std::size_t d) const;
  ContextWay least_sent(const Rule& rule, int round, bool may_go_round, bool may_exchange) const;
  std::optional<Strategy> exchanged(const Rule& rule, const Strategy& s) const;

  const Graph* graph_ = nullptr;
  const SequenceDims* sequence_ = nullptr;
  const Mesh* mesh_ = nullptr;
  Axes axes_;
  std::optional<ContextWay> asked_;
  std::string why_;
  bool splits_ = false;
};

}  // namespace shardwright
