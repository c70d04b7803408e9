// Computing what is known while a model is loaded, with the kernels that training uses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Tensors of the leaves of a small graph.
using KnownLeaves = std::map<ValueId, std::shared_ptr<const Tensor>>;

/// Runs `graph` and returns the values `wanted`, in their order. Nothing if it has leaves that are not known, or if
/// a value is of more than limits::constant_elements or all of them together are of more than `budget` elements, from
/// which they are taken otherwise: such values are better computed in each step. Throws: Error as kernels do.
std::optional<std::vector<Tensor>> computed(const Graph& graph, const KnownLeaves& leaves,
                                            std::span<const ValueId> wanted, std::int64_t& budget);

}  // namespace shardwright
