// Annotations: the door by which users say of single operators, parameters, modules and the data what is fixed of them
// (plan/constraints.h), in files and in the notation of the seeds (plan/tensor_split.h).
//
// `fixed_choices_of` (fixed_choices.h) turns them into strategies: integers become a device matrix of the operator's own, loop
// dims in the order of its rule and unused devices as one more axis at the right; then all device matrices
// are refined to one common mesh where that exists.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/graph/graph.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {

/// Reads the JSON form of commands.md. `where` names the file in errors.
/// Throws: Error naming the node or key.
Constraints parse_annotations(std::string_view json, std::string_view where);
Constraints load_annotations(const std::string& path);

/// Throws: Error with near names if what is annotated does not exist, or if `in` or `out` is missing or too much.
void check_names(const Graph& graph, const Constraints& constraints);

}  // namespace shardwright
