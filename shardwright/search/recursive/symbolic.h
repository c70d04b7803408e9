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
//
// The described system's versions differ. As the seeds have it, moving is charged until a tensor is first cut, for the
// nearest neighbours; this is --described alone. 2.10 charges it always, for all neighbours of the same shape, whatever
// their dims become in between, and reads the network in another order (reading_order.h), by weight only beyond 32 devices:
// --described with an order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/search/recursive/reading_order.h"
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
  /// Axis after axis: the data are cut, too.
  std::vector<Decision> decide(const CutProblem& problem, const Halving& halving,
                               const std::vector<std::vector<int>>& choices);

 private:
  /// A main operator's result that reaches an operand of another through operators that are none.
  struct Edge {
    int producer = 0;  // or data_part
    int user = 0;
    int operand = 0;
    std::vector<int> dim_of;  // per dim of the operand, that of the result; -1: none
  };

  void collect_mains(const CutProblem& problem);
  void collect_edges(const CutProblem& problem);
  void add_edge(Edge edge);
  std::vector<int> order(const CutProblem& problem, const Halving& halving,
                         const std::vector<std::vector<int>>& choices) const;
  std::vector<CutCost> own_costs(const CutProblem& problem, int part, const Halving& halving,
                                 const std::vector<int>& choices) const;
  /// Along one axis so far.
  struct Decided {
    std::vector<std::optional<int>> loops;  // per part
    std::optional<Cut> data;
  };
  double redistribution(const CutProblem& problem, int part, int loop, const Decided& decided) const;
  /// How the edge's tensor lies at its producer, in terms of the user's dims.
  Cut made_cut(const CutProblem& problem, const Edge& edge, int loop) const;
  bool is_charged(const CutProblem& problem, const Edge& edge, double elements) const;
  Cut cut_data(const CutProblem& problem, const Halving& halving, const Decided& decided);

  SearchOptions options_;
  bool is_by_weight_ = false;  // heaviest first, instead of last first
  bool reads_all_ = false;     // as 2.10 does
  std::vector<int> mains_;     // in the graph's order
  std::vector<int> in_order_;  // mains_ as they are decided, before weights; with the data, if they count
  std::optional<ValueId> data_;
  std::optional<DataCuts> data_cuts_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;  // per part, into edges_
};

}  // namespace shardwright::recursive
