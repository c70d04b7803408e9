// A planned network as JAX people write one: the forward of whole tensors in jax.numpy, whose layouts are asked for by
// `with_sharding_constraint`; the backward is jax.grad's, and XLA's partitioner chooses the collectives.
//
//   model.py       forward and update as functions of whole tensors
//   program.py     leaves and inputs, and how they lie
//   operators.py   functions that lines call; the others: the same for all
//
// Not carried: the order of the step, recomputing, which collectives there are and what is fused; one stage alone.
#pragma once

#include "shardwright/exchange/python/package.h"

namespace shardwright {

/// Texts by file name. Throws: Error that names the operator or value that JAX cannot have, or what the plan has that
/// constraints cannot say.
std::map<std::string, std::string> jax_constraints_package(const Pipeline& pipeline, const EmittedPlan& plan);

}  // namespace shardwright
