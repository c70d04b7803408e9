// A plan for batches of another size than a network is planned for, over the same weights: parameters and states lie as in the plan
// that there is, so that both programs can share them without moving anything, and all else is searched again.
//
//   as a search of whole plans has it     degrees, level and cut of stages are held; micro-batches, recompute and
//                                         sequence parallelism are free
//   as one that splits operators has it   parameters are held, each in its layout; operators and recompute are free
//   as degrees say, or a file             nothing is searched: the same, of what they divide
//
// Plans with other layouts of weights are not looked at: batches of all sizes come in any order, so that nearly every step would move
// weights and states, of which the update alone reads and writes all.
#pragma once

#include <string>

#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// The plan that there is, the network that it is of, and its program.
struct PlanThere {
  Graph graph;
  Plan plan;
  Pipeline program;
  bool is_given = false;  // by a file, which has decided everything
};
/// `formats`: of what will run it.
PlanThere plan_there(Graph graph, Plan plan, const FormatsOf& formats, bool is_given = false);

/// The same with nothing on the host, where nobody has said so: programs that share memory cannot have it there.
PlanRequest on_devices(PlanRequest request);

struct PlannedAlike {
  Graph graph;  // of one micro-batch of the other size
  Plan plan;
  Evaluation evaluation;
  /// What the plan that there is would take, carried over by names; nothing if it cannot be.
  std::optional<Evaluation> carried = {};
  bool is_own = false;  // else it is that one
};

/// The fastest that is found, or the one that there is, carried over by names. `step`: of batches of the other size; `request`: what was
/// asked of the plan that there is.
/// Throws: Error if neither can be.
PlannedAlike plan_alike(const PlanThere& there, const StepOf& step, const PlanRequest& request);

/// In what of all that is not held `other` differs from `plan`: `recompute=none (selected)`; empty: in nothing.
std::string difference_text(const Plan& plan, const Plan& other);

}  // namespace shardwright
