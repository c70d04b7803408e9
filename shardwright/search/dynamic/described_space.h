// The choices of a network as the described system has them (facts.md 3.5, 3.7, 3.8), with its costs as a sum of tables.
//
// Candidates of an operator: of each loop dim a power of two, the devices counted off dim by dim in the order of the rule,
// what is left repeats it; an odd part of the number of devices goes to one dim. Each reader of a value has a
// redistribution of its own. A parameter that several read is a variable without costs of its own; inputs lie whole.
#pragma once

#include <span>
#include <vector>

#include "shardwright/search/dynamic/described_costs.h"
#include "shardwright/search/space/cuts.h"
#include "shardwright/search/space/minimum.h"

namespace shardwright::dynamic {

/// The cost of what must not be: above all that are real.
constexpr double forbidden_cost = 1e18;

/// How much of a network's choices a space holds.
struct Extent {
  bool folds = false;  // repeated layers are one
  int most_strategies =
      256;  // of an operator; more take too long: tables are their square, eliminations their cube
  Deadline deadline = {};  // from then on the space is left as it is
};

class DescribedSpace {
 public:
  /// `problem` and `options` must outlive it.
  DescribedSpace(const Problem& problem, const SearchOptions& options, const Extent& extent);

  const FixedChoices& fixed() const { return fixed_; }
  const space::CutProblem& cuts() const { return cuts_; }
  const CostWeights& weights() const { return weights_; }
  /// Variables: the parts, then parameters that several read.
  const space::TableSum& cost() const { return cost_; }
  const std::vector<Strategy>& strategies(int part) const {
    return strategies_[static_cast<std::size_t>(part)];
  }
  /// Per part and choice, of a device.
  const std::vector<std::vector<double>>& bytes() const { return bytes_; }
  /// Time was not over before it was done; otherwise it has no use.
  bool is_complete() const { return is_complete_; }
  /// All strategies are in it, none was left out for being too many.
  bool is_exact() const { return is_exact_; }

  DescribedCost own_cost(int part, int choice) const;
  /// Of a choice of all variables.
  DescribedCost total(std::span<const int> chosen) const;
  double total_bytes(std::span<const int> chosen) const;

 private:
  /// A tensor that is redistributed between two variables, or where one end is no choice (-1).
  struct Move {
    int from = -1, to = -1;          // variables
    std::vector<Spread> has, wants;  // per choice of these
    Type type;
    double count = 1;
    bool is_followed = false;  // it must not move
  };

  Placed placed(int part, int choice) const;
  void add_part(int part, double approximation);
  void mark_involved();
  double memory(int part, int choice) const;
  void collect_moves(const space::CutValue& v);
  void add_leaf_moves(const space::CutValue& v);
  void add_parameter(const space::CutValue& v);
  void add_moves(const Move& move);
  std::vector<Spread> operand_spreads(const space::CutUse& use) const;
  std::vector<Spread> result_spreads(const space::CutValue& v) const;
  Spread spread(const Layout& layout, const Strategy* strategy) const;
  DescribedCost cost_of(const Move& move, const Spread& has, const Spread& wants) const;

  const Problem* problem_;
  const SearchOptions* options_;
  FixedChoices fixed_;
  space::CutProblem cuts_;
  CostWeights weights_;
  std::vector<std::vector<Strategy>> strategies_;
  std::vector<std::vector<double>> bytes_;
  std::vector<bool> is_involved_;  // per value: a parameter has a part in it, so that the backward reads it
  std::vector<NodeId> first_reader_;  // per value
  std::vector<Move> moves_;
  space::TableSum cost_;
  bool is_complete_ = true;
  bool is_exact_ = true;
};

}  // namespace shardwright::dynamic
