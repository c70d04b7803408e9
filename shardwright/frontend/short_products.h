// Mixed precision operator by operator (amp_level O1): products in a short type, all else as it was. A cast stands in
// front of each operand of a product, and behind its results for whoever is no product:
//
//   %y = matmul %x, %w          ->   %x.bf16 = cast %x (to=bf16)
//                                    %y = matmul %x.bf16, %w            # %w = param bf16[..] (master=f32)
//                                    %y.f32 = cast %y (to=f32)
//
// A parameter that nothing but products reads is kept short itself, with a master, so that gathers of it travel short.
#pragma once

#include "shardwright/base/precision.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// `graph`, a forward graph, with contractions and convolutions of operands in `from` done in `to`. Names stay; casts
/// are called `x.bf16`.
Graph with_short_products(const Graph& graph, DType from, DType to);

/// As `precision` wants products; `graph` itself unless it names a type of theirs.
Graph with_products_as(Graph graph, const Precision& precision);

/// What a network as text was made in: read off the masters of its parameters, off who reads what its products make, and
/// off its loss.
Precision precision_of(const Graph& graph, ValueId loss);

}  // namespace shardwright
