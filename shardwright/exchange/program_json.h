// The lowered program as JSON, for programs that are not ours: what every rank holds and does in a step, with nothing left
// to know. docs/program-format.md says what each field means; tests/outside/ runs programs by that page alone.
#pragma once

#include <string>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// One document on a line: of version 3 where dims are cut by shares (`places`), else of 2 where runs of elements stay together
/// (`grains`), else of 1. Cost: linear in values,
/// nodes and instructions of all ranks.
std::string program_json(const Pipeline& pipeline);

}  // namespace shardwright
