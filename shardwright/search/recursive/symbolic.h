// The symbolic costs of the described system (SAPP's core; facts.md 5.4 to 5.6): in elements, from shapes alone.
//
// Only main operators, the contractions, are decided by them; all others follow by propagation. For y = a b over
// i, j, k, halved (in general cut into p parts, f = (p - 1) / p instead of 1/2):
//
//   cut I: f |b| c     cut J: f |a|     cut K: f |y|     whole: (least of these)^2 / 25      c = mem_coeff
//
// That is, a loop dim costs what lacks it: an operand's gradient or a partial result must be reduced. c weighs
// parameters, since they are what data parallelism repeats. To a cut come 16 |t| for each neighbour, decided earlier
// along the same axis, that has a shared tensor t otherwise. Operators are decided one after the other, the
// last first, or, on many devices with small micro-batches, the heaviest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/search/space/cuts.h"

namespace shardwright::recursive {

using namespace space;

/// What one way to cut an operator costs. `loop` is no_loop_dim for leaving it whole.
struct CutCost {
  std::string name;  // I, J, K or Batch
  int loop = no_loop_dim;
  double own = 0;             // infinite: not possible
  double redistribution = 0;  // to and from decided neighbours
  double total() const { return own + redistribution; }
};

/// Lines that tell a choice as seed 003 does; `costs` ends with that of leaving it whole.
std::vector<std::string> told(const std::string& node, const std::vector<CutCost>& costs, std::size_t chosen);

class SymbolicCosts {
 public:
  /// `problem` before the first cut; those that are passed later differ only in their cuts.
  SymbolicCosts(const CutProblem& problem, int devices, const SearchOptions& options);

  /// Parts that are decided by these costs.
  const std::vector<int>& mains() const { return mains_; }

  struct Decision {
    int part = 0;
    std::vector<CutCost> costs;
    std::size_t chosen = 0;
  };
  /// Of all main parts along one axis, in the order in which they are decided. `choices`: loop dims that may be cut.
  std::vector<Decision> decide(const CutProblem& problem, const Halving& halving,
                               const std::vector<std::vector<int>>& choices) const;

 private:
  /// A main operator's result that reaches an operand of another through operators that are none.
  struct Edge {
    int producer = 0;
    int user = 0;
    int operand = 0;
    std::vector<int> dim_of;  // per dim of the operand, that of the result; -1: none
  };

  void collect_mains(const CutProblem& problem);
  void collect_edges(const CutProblem& problem);
  std::vector<int> order(const CutProblem& problem, const Halving& halving,
                         const std::vector<std::vector<int>>& choices) const;
  std::vector<CutCost> own_costs(const CutProblem& problem, int part, const Halving& halving,
                                 const std::vector<int>& choices) const;
  double redistribution(const CutProblem& problem, int part, int loop,
                        const std::vector<std::optional<int>>& decided) const;

  SearchOptions options_;
  bool is_by_weight_ = false;  // heaviest first, instead of last first
  std::vector<int> mains_;     // in the graph's order
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;  // per part, into edges_
};

}  // namespace shardwright::recursive
