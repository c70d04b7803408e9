// Split a whole tensor into what each rank holds, and join it again: the oracle of the tests, and how
// initial weights, batches and checkpoints reach the ranks.
#pragma once

#include <span>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/layout/layout.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

/// The part of `whole` that lies in `part`.
Tensor take(const Tensor& whole, const Box& part);
/// Writes `part` into the box of `whole`.
void put(Tensor& whole, const Box& where, const Tensor& part);

/// One local tensor per rank. A partial value is the whole on coordinate 0 and nothing (0, or the lowest
/// value for max) elsewhere.
std::vector<Tensor> split(const Tensor& whole, const Layout& layout, const Mesh& mesh);

/// The whole tensor. Throws: Error if replicas differ.
Tensor join(std::span<const Tensor> parts, const Layout& layout, const Mesh& mesh, const Shape& shape);

/// What every rank holds after `step`, computed from what they held before.
std::vector<Tensor> apply(const Step& step, std::span<const Mesh> meshes, const Shape& shape,
                          std::span<const Tensor> parts);

}  // namespace shardwright
