// The sum that is least for the best cuts along one axis: what each part costs by itself, and what it costs that one
// part makes a value as another does not want it, forward and backward.
//
// A value that is read once is a table over its producer and its user. One that is read several times has a variable
// of its own, for how it lies after it left its producer: moved once, read by all; and its gradients, which may stay
// partial until they are added. What moves as it did along the axis before is one collective with it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shardwright/search/space/cuts.h"
#include "shardwright/search/space/minimum.h"

namespace shardwright::recursive {

using namespace space;

/// How a value lies at the two ends of a way, and its gradient at the user's.
struct CutEnds {
  Cut from = not_cut;
  Cut to = not_cut;
  Cut gradient = not_cut;
  bool operator==(const CutEnds&) const = default;
};

/// What was decided on one way of a value along the axes before.
struct CutWay {
  CutEnds last{-3, -3, -3};  // along the axis before
  std::uint32_t moved = 0;   // dims that some axis left or came to, a bit each
  std::uint32_t moved_gradient = 0;
};

/// Per value: its way out of its producer, then to each user.
using CutHistory = std::vector<std::vector<CutWay>>;

/// One that remembers nothing.
CutHistory no_history(const CutProblem& problem);

/// How a collective stands to those of the axes before: by itself, as one with the last, or (where nothing else
/// moves) putting the parts of a dim in order that a more major axis has left.
enum class Joined { no, yes, reorders };

/// What moving a tensor of one size costs along an axis, by what is done.
struct MovePrices {
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0, all_to_all = 0;
  double slice = 0;
  double reorder = 0;  // Joined::reorders
  double start = 0;    // of a collective; what runs as one pays it once

  double of(Cut from, Cut to, Joined joined) const {
    if (joined == Joined::reorders) return reorder;
    if (from == to || to == partial_cut) return 0;
    if (from == not_cut) return slice;
    const double collective = from == partial_cut ? (to == not_cut ? all_reduce : reduce_scatter)
                                                  : (to == not_cut ? all_gather : all_to_all);
    return joined == Joined::yes ? collective - start : collective;
  }
};

/// What is paid along the axis at hand.
struct CutPrices {
  int axis = 0;
  std::function<double(int part, int loop)> own;  // of a part that cuts `loop`
  std::function<MovePrices(double bytes)> moves;  // of a tensor that is so large uncut
  std::function<double(const CutValue& parameter, Cut gradient, Joined)> reduce;  // of its gradient, per node
  std::function<bool(const CutValue&)> is_followed;  // its users must take it as it is
};

/// How a value that several read lies once it left its producer, and what its gradients are before they are added.
struct SharedForm {
  Cut cut = not_cut;
  bool is_gradient_partial = false;
};

struct CutTables {
  TableSum sum;                                // the first variables are the parts
  std::vector<std::vector<int>> choices;       // per part: the loop dim of each choice
  std::vector<int> shared;                     // per value: its variable, or -1
  std::vector<std::vector<SharedForm>> forms;  // per value: what that variable's choices are

  /// The loop dim that `part` cuts.
  int loop(int part, const std::vector<int>& chosen) const {
    return choices[static_cast<std::size_t>(part)]
                  [static_cast<std::size_t>(chosen[static_cast<std::size_t>(part)])];
  }
};

CutTables tables_of(const CutProblem& problem, std::vector<std::vector<int>> choices, const CutPrices& prices,
                    const CutHistory& before);

/// What `chosen` means for every value along `axis`, after `before`.
CutHistory history_of(const CutProblem& problem, const CutTables& tables, const std::vector<int>& chosen,
                      const CutHistory& before, int axis);

}  // namespace shardwright::recursive
