// One solution: on one ladder of axes, under one set of weights. At each axis all operators are decided at once by
// eliminating variables (minimum.h); equal layers are one operator (fold.h).
#pragma once

#include <deque>
#include <functional>

#include "shardwright/search/recursive/cut_solution.h"
#include "shardwright/search/space/fold.h"

namespace shardwright::recursive {

class Solver {
 public:
  /// `problem` and `options` must outlive it.
  /// Throws: Infeasible if the described system is asked for and does not plan for so many devices.
  Solver(const Problem& problem, const SearchOptions& options);

  /// The sequences of axes to try, from the fewest axes on.
  const std::vector<Ladder>& ladders() const { return ladders_; }

  Solution solve(const Ladder& ladder, const CutWeights& weights) const;

  /// Main operators by symbolic costs, one after the other; the others by what they have to move then.
  Solution symbolic_solution() const;

  const CutSeconds& seconds() const { return *seconds_; }

 private:
  void collect_ladders();
  void add_ladder(FixedChoices fixed);

  Solution all_or_nothing(const std::function<Solution(const std::vector<bool>& is_whole)>& solve) const;
  Solution solve(const Ladder& ladder, const CutWeights& weights, const std::vector<bool>& is_whole) const;
  Solution symbolic_solution(const std::vector<bool>& is_whole) const;
  CutPrices following_prices(const CutProblem& problem, const AxisLevel& level) const;
  void tell(Solution& solution, const SymbolicCosts::Decision& d) const;
  bool is_followed(const CutValue& v) const;
  double gradient_seconds(const CutProblem& problem, const AxisLevel& level, const CutHistory& before,
                          const CutHistory& after) const;
  std::vector<std::vector<int>> choices(const CutProblem& problem, const Halving& halving,
                                        const std::vector<bool>& is_whole) const;

  const Problem& problem_;
  const SearchOptions& options_;
  const Calls& calls_;
  Fold fold_;
  std::deque<CutProblem> problems_;
  std::vector<Ladder> ladders_;
  std::optional<CutSeconds> seconds_;
};

}  // namespace shardwright::recursive
