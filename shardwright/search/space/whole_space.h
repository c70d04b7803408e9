// The space of whole strategies that dynamic and integer search: the parts of a network, and on each ladder of few axes the
// tables of what all their choices take.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "shardwright/search/space/tables.h"
#include "shardwright/search/space/told.h"

namespace shardwright::space {

class WholeSpace {
 public:
  /// On the meshes where eliminations take at most `most_work`, the cube of each part's strategies, or on the smallest.
  /// `problem` must outlive it.
  WholeSpace(const Problem& problem, const SearchOptions& options, double most_work);

  struct OnLadder {
    FixedChoices fixed;
    CutProblem cuts;  // before the first
    ChoiceTables tables;
  };
  const std::deque<OnLadder>& ladders() const { return ladders_; }

  /// With these choices of the parts, without reasons.
  SearchResult unexplained(const OnLadder& on, const std::vector<int>& chosen) const;
  /// The same, the best by `weights` or nearly so, with reasons.
  SearchResult explained(const OnLadder& on, const std::vector<int>& chosen, const CutWeights& weights) const;

  /// `12 operators, 340 strategies on 2 meshes`
  std::string size() const;

 private:
  std::vector<Reason> reasons(const OnLadder& on, const std::vector<int>& chosen, const TableSum& sum,
                              const JoinedMesh& mesh) const;

  const Problem& problem_;
  Fold fold_;
  std::deque<OnLadder> ladders_;
};

}  // namespace shardwright::space
