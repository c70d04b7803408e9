// What of a plan's layouts JAX can have.
#pragma once

#include <string>

#include "shardwright/lower/pipeline.h"

namespace shardwright::jax {

/// Throws: Error that names a value of which ranks hold unequal parts, which the first mesh does not have, or which is read
/// in windows that reach into neighbours' parts. Constraints can say the last, but XLA's partitioner then gave wrong gradients
/// (JAX 0.10.2, ResNet-18 by rows).
void check_layouts(const Pipeline& pipeline);

/// `("dp", "tp")`, of one axis `"tp"`
std::string axes_text(const Axes& axes, const Mesh& mesh);

/// The axes of each dim as PartitionSpec takes them: `"dp", None`
std::string dims_text(const Layout& layout, const Mesh& mesh);

}  // namespace shardwright::jax
