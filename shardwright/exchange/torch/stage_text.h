// The functions of a stage in Python with PyTorch: a line an operator, its values called as in the plan.
#pragma once

#include "shardwright/exchange/python/elements.h"
#include "shardwright/exchange/python/names.h"

namespace shardwright::torch {

/// Throws: Error that names an operator that is not written in PyTorch.
python::StageText stage_text(const Pipeline& pipeline, int stage, const python::Elements& elements);

}  // namespace shardwright::torch
