// A planned program in the words of Shardy, as its tests print them: the mesh, the shardings of arguments, results and
// values, and each operator with its rule.
//
//   %y = stablehlo.custom_call @matmul(%x, %w) {sdy.sharding = ..., sdy.sharding_rule =
//       #sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=16} reduction={j}, custom>}
//
// Tensors are whole ones; what ranks redistribute is a `sdy.sharding_constraint`, and a sum that is not done yet is
// `unreduced`. So XLA, or whoever reads `sdy`, sees which layouts the plan has, and may propagate on from there.
#pragma once

#include <string>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// Of one micro-batch: forward, backward and update. Throws: Error if there are several stages.
std::string shardy_text(const Pipeline& pipeline, const std::string& summary);

}  // namespace shardwright
