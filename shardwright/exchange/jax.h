// A planned program as a package for JAX: what every rank does, in one `jax.shard_map` over all devices, with collectives
// of `lax`.
//
//   model.py       a stage's forward, backward and update as functions of tensors (model_1.py, ... of several stages)
//   program.py     leaves and lists of tasks as data
//   operators.py   functions that lines of the model call; the others: the same for all
//
// Lists and names are those of packages for PyTorch (torch.h). A program of JAX has one shape for all ranks, so a plan
// must cut its tensors evenly, and one mesh.
#pragma once

#include "shardwright/exchange/python/package.h"

namespace shardwright {

/// Texts by file name. Throws: Error that names the operator, step or value that JAX cannot have.
std::map<std::string, std::string> jax_package(const Pipeline& pipeline, const EmittedPlan& plan);

}  // namespace shardwright
