// A planned program as a package for PyTorch: what every rank does, written down to be read and run.
//
//   model.py       a stage's forward, backward and update as functions of tensors (model_1.py, ... of several stages)
//   program.py     leaves, transfers and lists of tasks as data
//   operators.py   functions that lines of the model call; the others: the same for all
//
// The lines come from the operators' facets (graph/op.h), the lists from lower/step.h: there is no second description of
// the step.
#pragma once

#include "shardwright/exchange/python/package.h"

namespace shardwright {

/// Texts by file name. Throws: Error that names an operator that is not written in PyTorch.
std::map<std::string, std::string> torch_package(const Pipeline& pipeline, const EmittedPlan& plan);

}  // namespace shardwright
