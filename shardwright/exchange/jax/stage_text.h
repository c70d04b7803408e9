// The functions of a stage as JAX has them inside of `shard_map`: a line an operator or collective, values called as in the
// plan.
#pragma once

#include "shardwright/exchange/python/elements.h"
#include "shardwright/exchange/python/names.h"

namespace shardwright::jax {

/// Throws: Error that names an operator or a step that is not written in JAX.
python::StageText stage_text(const Pipeline& pipeline, int stage, const python::Elements& elements);

}  // namespace shardwright::jax
