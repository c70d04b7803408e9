// Plans that a search knows by figures become programs, and the best of these is taken: figures err in time and memory,
// programs do not (planning/judge.h).
#pragma once

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/progress.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/space/whole_space.h"

namespace shardwright::space {

/// Of one ladder, by figures.
struct WholePlan {
  const WholeSpace::OnLadder* on = nullptr;
  std::vector<int> choices;  // per variable of the tables
  CutWeights weights;        // under which they are the least, or nearly so
  double seconds = 0, bytes = 0;
};

/// With what figures say of these choices.
WholePlan figured(const Problem& problem, const WholeSpace::OnLadder& on, std::vector<int> choices,
                  const CutWeights& weights);

/// The best at prices of a byte, from none to more than all time is worth: ever slower and of fewer bytes.
std::vector<WholePlan> plans_at_prices(const Problem& problem, const WholeSpace::OnLadder& on,
                                       double gradients);

class Trials {
 public:
  /// All must outlive it.
  Trials(const Problem& problem, const SearchOptions& options, const WholeSpace& space);

  /// Tries `plans`, of which there is one at least, fastest first, until one fits of which no faster is left that may; of
  /// small networks some that by figures are nearly as fast, too. None is tried twice.
  void run(std::vector<WholePlan> plans);

  /// Of networks of at most 100 nodes: the best plan with each choice of an operator or of two neighbours, and what differs
  /// from the best in these as long as that is better; as many as eliminations and programs are worth.
  void refine();

  /// The best: if nothing fits, what misses least.
  SearchResult best() const { return space_.explained(*best_.on, best_.choices, best_.weights); }
  const Evaluation& of_best() const { return of_best_; }
  const WholePlan& best_plan() const { return best_; }
  bool has_fit() const { return count_ > 0 && of_best_.fits(); }
  int count() const { return count_; }

 private:
  using Choice = std::pair<int, int>;  // variable, and what it takes
  bool may_fit(const WholePlan& plan) const;
  std::string tried_text() const;
  bool try_plan(const WholePlan& plan);
  bool try_change(const WholePlan& plan);
  std::vector<std::vector<Choice>> choices_to_try(const TableSum& sum) const;
  std::vector<WholePlan> plans_with_each_choice() const;
  void change();
  std::vector<WholePlan> changes() const;

  const Problem& problem_;
  const SearchOptions& options_;
  const WholeSpace& space_;
  const double cap_;
  double bytes_per_figure_ = 1;
  std::set<std::pair<const WholeSpace::OnLadder*, std::vector<int>>> known_;
  WholePlan best_;

  Evaluation of_best_;
  int count_ = 0;
  Doing doing_;
};

}  // namespace shardwright::space
