// What a network takes as a sum over its choices: seconds of each part by itself and of each pair where one makes what the
// other reads, and bytes of a device. Strategies are whole, of all axes of a mesh at once.
//
//   seconds = sum over parts of own(s_p) + sum over values of move(result(s_p), operand(s_q)) + gradients
//
// A value that is read once is a table over its producer and its user. One that several read has a variable of its own,
// for the layout in which all find it, and that in which its gradients are added: moved once, read by all. A leaf lies as
// its first user wants it, or as is asked.
#pragma once

#include <span>
#include <vector>

#include "shardwright/search/space/minimum.h"
#include "shardwright/search/space/part_costs.h"

namespace shardwright::space {

/// The price of what must not be: above all that are real.
constexpr double forbidden_seconds = 1e6;

/// Choices of a network on the meshes of one ladder.
struct ChoiceTables {
  TableSum seconds;  // variables: the parts, then values that several read; without gradients of parameters
  std::vector<std::vector<Strategy>> strategies;  // per part
  std::vector<std::vector<double>> compute;       // per part and choice: seconds, of `seconds`
  std::vector<std::vector<double>>
      gradients;  // per part and choice: seconds of reducing its parameters' gradients
  std::vector<std::vector<double>> bytes;          // per part and choice, of a device
  std::vector<std::vector<PartCosts::Held>> held;  // the same, by what it is for
  bool accumulates = false;                        // gradients, over micro-batches

  /// All seconds, those of gradients weighted.
  TableSum weighted(const CutWeights& weights) const;
  /// What the parts' choices, the first of `chosen`, add up to.
  CutTotals totals(std::span<const int> chosen) const;
  /// `chosen` with the best values that several read between these parts.
  std::vector<int> with_best_shared(std::vector<int> chosen) const;
};

/// On the meshes of `fixed`. `problem`: before the first cut. All must outlive the call only.
/// Cost: of each value the product of the layouts at its two ends, each a redistribution that is searched once.
ChoiceTables choice_tables(const Problem& problem, const CutProblem& cuts, const FixedChoices& fixed,
                           const PartCosts& costs, const SearchOptions& options);

/// `cuts` with the strategies that the first variables of `chosen` are.
CutProblem decided(const CutProblem& cuts, const ChoiceTables& tables, std::span<const int> chosen,
                   const FixedChoices& fixed);

}  // namespace shardwright::space
