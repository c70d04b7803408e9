// What searches are told of a plan that they try: it is lowered and optimized as it will run, timed and measured, so that
// no search carries a second model of the step. What the program knows (slots, sharded states, recompute, memory
// formats) the search thereby knows, too.
#pragma once

#include "shardwright/search/planning/evaluated_plans.h"
#include "shardwright/search/planning/judged_plans.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {

/// Programs of such networks take long to make.
bool is_large(const Problem& problem);
/// They take at most so many times the memory that figures of parts add up to: of large networks 0.93 to 1.52 times as much,
/// of two layers up to 2.5 times.
double memory_margin(const Problem& problem);

class Judge {
 public:
  /// For plans of `graph` under `fixed`; `plan` says what is recomputed, fused and sharded. All must outlive it.
  /// It notes what it judges in `judged`, and what it knows is in `evaluated`, if these are not null.
  Judge(const Graph& graph, const Calls& calls, const PlanRequest& request, const Cluster& cluster,
        const FixedChoices& fixed, const Plan& plan, JudgedPlans* judged = nullptr,
        EvaluatedPlans* evaluated = nullptr)
      : graph_(graph),
        calls_(calls),
        request_(request),
        cluster_(cluster),
        fixed_(fixed),
        plan_(plan),
        judged_(judged),
        evaluated_(evaluated) {}

  /// Cost: as compiling the whole step, if it is not known.
  Evaluation evaluate(const SearchResult& tried) const;

  /// Bytes of a device that a plan may use: --memory-cap, else what the cluster's devices have.
  std::int64_t cap_bytes() const;

  /// What devices hold more or less of than cuts say.
  const MicroBatches& micro_batches() const { return request_.micro_batches; }
  const OptimizerParallel& optimizer_parallel() const { return plan_.settings.optimizer_parallel; }
  bool recomputes() const { return plan_.settings.recompute.is_on(); }

 private:
  Evaluation made(Choices choices) const;

  const Graph& graph_;
  const Calls& calls_;
  const PlanRequest& request_;
  const Cluster& cluster_;
  const FixedChoices& fixed_;
  const Plan& plan_;
  JudgedPlans* judged_;
  EvaluatedPlans* evaluated_;
};

}  // namespace shardwright
