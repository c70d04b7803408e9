// What mixed precision changes of a traced network: which nodes are computed in another type than they were traced in.
// A cast stands in front of each of their operands, and behind their results for whoever else reads these.
//
// Operator by operator (amp_level O1), from a network in f32: products are short.
//
//   %y = matmul %x, %w          ->   %x.bf16 = cast %x (to=bf16)
//                                    %y = matmul %x.bf16, %w            # %w = param bf16[..] (master=f32)
//                                    %y.f32 = cast %y (to=f32)
//
// Whole (O2), from a network whose activations are short: losses are in f32, whatever they are made of. What belongs to a
// loss is what lies behind the last products: no operator is named.
//
//   %s = scale %y               ->   %y.f32 = cast %y (to=f32)
//   %loss = reduce_mean %s           %s = scale %y.f32
//                                    %loss = reduce_mean %s
//
// A parameter that nothing else reads is of their type itself, and has a master where that is short, so that gathers of
// it travel short.
#pragma once

#include "shardwright/base/precision.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// `graph`, a forward graph, with contractions and convolutions of operands in `from` done in `to`. Names stay; casts
/// are called `x.bf16`.
Graph with_short_products(const Graph& graph, DType from, DType to);

/// `graph`, whose first output is the loss, with what is behind its last products in `to` instead of `from`; what gives
/// `to` from operands in `from` stays.
Graph with_full_loss(const Graph& graph, DType from, DType to);

/// A traced network, whose first output is the loss, as `precision` wants it.
Graph with_precision(Graph graph, const Precision& precision);

/// What a network as text was made in: read off the masters of its parameters, off who reads what its products make, and
/// off its loss.
Precision precision_of(const Graph& graph, ValueId loss);

}  // namespace shardwright
