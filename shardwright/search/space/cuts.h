// The forward graph as searches see it: parts of the network (classes of equal nodes), the
// values between them, and for each part the loop dim that the axis at hand cuts.
//
// Along one axis a tensor is cut along one dim, whole, or partial; a strategy is the list of a part's cuts, one per
// axis. So choices are few (loop dims + 1) and prices simple, whatever the number of devices. A search of whole strategies
// sets them at once.
#pragma once

#include <optional>
#include <vector>

#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"
#include "shardwright/search/planning/problem.h"
#include "shardwright/search/space/fold.h"

namespace shardwright::space {

/// How a tensor lies along one axis: the dim that is cut, or one of these.
using Cut = int;
constexpr Cut not_cut = -1, partial_cut = -2;
constexpr int no_loop_dim = -1;

/// A class of forward operators, which all take one strategy.
struct CutPart {
  NodeId example;
  double count = 1;  // nodes of the class
  const Rule* rule = nullptr;
  Strategy strategy;             // the axes so far
  std::vector<int> parts;        // per loop dim, into how many it is cut so far
  std::vector<double> operands;  // elements that a device holds of each, after the cuts so far
  std::vector<double> results;
  std::optional<Strategy> fixed;  // by the user
  bool is_elsewhere = false;      // fixed on another mesh: not priced
};

struct CutUse {
  int part = 0;
  int operand = 0;
  double count = 1;  // edges of this kind
};

/// A class of values that forward operators read.
struct CutValue {
  ValueId example;
  double count = 1;
  int producer = -1;  // part; -1: a leaf
  int result = 0;
  std::vector<CutUse> uses;
  bool has_gradient = false;
  bool gives_rows = false;  // a table whose gradient is rows that are looked up: updates by rows
  bool is_parameter = false;
  std::optional<Layout> asked;  // by the user
};

/// What is cut along an axis.
struct Halving {
  int axis = 0;
  int parts = 2;
};

/// Unless they are asked for, the described system's layers are each for itself.
bool are_layers_folded(const SearchOptions& options);

/// Of the forward operators of `problem`, those that the user treats differently apart.
Fold fold_of(const Problem& problem, bool folds_layers);

/// Its readers must take it as it lies: a point-wise operator's result, if --elementwise-follow.
bool is_followed(const Problem& problem, const SearchOptions& options, const CutValue& v);

class CutProblem {
 public:
  /// `fixed` and `asked` are in terms of the axes that will be cut, on mesh 0.
  CutProblem(const Graph& graph, const Calls& calls, const Fold& fold, const FixedChoices& fixed);

  const Graph& graph() const { return *graph_; }
  int size() const { return static_cast<int>(parts_.size()); }
  const std::vector<CutPart>& parts() const { return parts_; }
  const std::vector<CutValue>& values() const { return values_; }
  const CutPart& part(int p) const { return parts_[static_cast<std::size_t>(p)]; }
  /// The part that `node` belongs to; -1: it is no forward operator.
  int part_of(NodeId node) const { return part_of_[static_cast<std::size_t>(node.index)]; }

  /// The loop dims of `part` that `halving` may cut, after `no_loop_dim`. A fixed part has one choice.
  std::vector<int> choices(int part, const Halving& halving) const;
  /// Cuts `loop` of `part` (or nothing).
  void cut(int part, int loop, const Halving& halving);
  /// Cuts `part` as `strategy` says of all axes of `mesh` at once, whatever it was before.
  void set(int part, const Strategy& strategy, const Mesh& mesh);

  /// How the operand, its gradient, and the result lie along an axis that cuts `loop`.
  Cut operand_cut(int part, int operand, int loop) const;
  Cut gradient_cut(int part, int operand, int loop) const;
  Cut result_cut(int part, int result, int loop) const;

  /// Cutting `loop` shards an operand that is a parameter.
  bool shards_a_parameter(int part, int loop) const;

  /// Elements that a device holds after the cuts so far.
  double operand_elements(int part, int operand) const {
    return this->part(part).operands[static_cast<std::size_t>(operand)];
  }
  double result_elements(int part, int result) const {
    return this->part(part).results[static_cast<std::size_t>(result)];
  }
  double extent(int part, int loop) const;

 private:
  void collect_parts(const Calls& calls, const Fold& fold, const FixedChoices& fixed);
  void collect_values(const Fold& fold, const FixedChoices& fixed);
  bool can_cut(const CutPart& part, int loop, int parts) const;
  static void divide(CutPart& part, int loop, int parts);

  const Graph* graph_;
  std::vector<CutPart> parts_;
  std::vector<CutValue> values_;
  std::vector<int> part_of_;
};

}  // namespace shardwright::space
