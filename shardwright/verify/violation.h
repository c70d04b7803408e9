// What is wrong with the instructions of ranks, in one line that names ranks, instructions and graph nodes.
#pragma once

#include <string>
#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright {

struct Violation {
  std::string text;
};
using Violations = std::vector<Violation>;

template <class... A>
Violation violation(fmt::format_string<A...> text, A&&... a) {
  return {fmt::format(text, std::forward<A>(a)...)};
}

/// Ranks that do the same, each where it stands (meetings.h).
struct RankClass {
  RankStep step;           // of the first, unrolled; of the others it is what lowering derives
  std::vector<int> ranks;  // ascending
};
struct Meetings;

/// The transfers of every group match: all members prepare the same ones in one order and start the same ones in one
/// order.
Violations mismatches(const Meetings& meetings);

/// What one member of a group takes is what the other holds, box by box. The transfers of all groups match.
Violations misplaced_pieces(Meetings& meetings);

/// Every transfer that is started is finished, and no rank waits for ever. The transfers of all groups match.
Violations endless_waits(const Meetings& meetings);

/// Every value of every stage lies in exactly one complete layout, and redistribution steps lead from one to the other.
Violations incomplete_layouts(const Pipeline& pipeline);

/// Every operator of every stage reads and makes the layouts of its rule and strategy, every leaf is replaced by what
/// lies as it does, and what is kept, handed out or sent is not partial.
Violations broken_rules(const Pipeline& pipeline);

/// What an instruction reads is there: made before, for this micro-batch, and not written over since. What transfers
/// on their way read and write nobody else writes.
Violations overwritten_values(const std::vector<RankClass>& classes, const Pipeline& pipeline);

}  // namespace shardwright
