// Why a plan is what it is: every strategy that an operator could have, priced with all others as they are planned.
//
// A candidate takes the operator's place in its neighbourhood (explain/neighbourhood.h), which is completed, lowered and
// priced like any program; what the operator reads first (weights, data) lies as the candidate wants it. So the
// difference of two candidates is the difference of two whole steps, before passes and overlap.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/explain/operator_cost.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/plan.h"
#include "shardwright/simulate/operator_seconds.h"

namespace shardwright {

struct Candidate {
  Strategy strategy;
  OperatorCost cost;
  std::string most_reduced = {};  // the value whose reduction takes longest
  std::string most_moved = {};    // whose change of layout does
};

struct Explanation {
  PlannedOperator planned;
  Rule rule;
  std::vector<Mesh> meshes;  // of the candidates: the plan's, or with joined axes (explain/coarse.h)
  std::vector<Candidate>
      candidates;          // fastest first; of equal ones the planned one, then that of least memory
  std::size_t choice = 0;  // the plan's, in `candidates`
  std::optional<std::size_t> data_parallel;
  int left_out = 0;  // candidates that are not listed
  double overlap =
      0;  // of communication, what may run beside compute (Cluster::overlap); prices leave it out
};

/// What a planned operator costs, and which call it makes (equal numbers: the same operator on the same types).
struct OperatorShare {
  OperatorCost cost;
  int call = 0;
};

/// Answers questions about one stage of a plan.
class Explainer {
 public:
  /// `planned`: the stage's part of a train step, as `apply` makes it. The plan must outlive this.
  Explainer(PlannedGraph planned, const Plan& plan, std::size_t stage = 0);

  const Plan& plan() const { return plan_; }
  const StagePlan& stage() const { return stage_; }
  const Graph& graph() const { return graph_; }  // complete
  const Cluster& cluster() const { return cluster_; }

  /// Every candidate for the forward operator called `name`, at most `most` of them.
  /// Throws: Error with near names if there is none.
  Explanation explain(std::string_view name, std::size_t most = 64);

  /// Per planned operator; `seconds` of the plan as it runs (simulate/estimate.h), so that these add up to the step.
  std::vector<OperatorShare> shares(const StageSeconds& seconds);

 private:
  const Plan& plan_;
  const StagePlan& stage_;
  Cluster cluster_;
  bool has_layers_;  // the network
  Graph graph_;
  Redistributor redistributor_;
  BatchDims is_batch_;
};

}  // namespace shardwright
