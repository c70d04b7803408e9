// The functions of a stage as JAX has them inside of `shard_map`: a line an operator or collective, values called as in the
// plan.
#pragma once

#include "shardwright/exchange/torch/stage_text.h"

namespace shardwright::jax {

/// Throws: Error that names an operator or a step that is not written in JAX.
torch::StageText stage_text(const Pipeline& pipeline, int stage, const torch::Elements& elements);

}  // namespace shardwright::jax
