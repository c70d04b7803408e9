// Where stages are as somebody asked: whether others would be better, and what they would take.
#pragma once

#include <string>

#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// `pp=4,micro_batches=8,schedule=1f1b takes 1.2 s instead of 1.5 s`: of `other`, if it has other stages and is better.
std::string suggestion_of(const StepOf& step, const PlanRequest& request, const Plan& plan,
                          const Plan& other);

/// `micro_batches=8,micro_batch_interleave=2 takes 2.8 s instead of 3.5 s`: of `plan`, which searches whole plans do not cut so,
/// where operators wait for one another's parts. Nothing where the network cannot be cut so, or where it is no better.
std::string parts_suggestion_of(const StepOf& step, const PlanRequest& request, const Plan& plan);

/// What a plan has of a structure beside its degrees, in words of --fix: `pp=2,micro_batches=4,zero=1,recompute=full`.
std::string structure_text(const Settings& settings);
/// The same with its degrees: as the search of whole plans said it, or else the axes of its mesh, if all stages have the same.
std::string structure_text(const Plan& plan);

/// Some operator is split otherwise than by the batch, so that the next one may wait for it.
bool shares_work(const Plan& plan);

}  // namespace shardwright
