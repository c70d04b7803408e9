// The text form of graphs, planned graphs and programs: one grammar, three levels.
//
//   mesh [tp=2]
//   %x = input f32[4, 8] [-, tp]
//   %w = param f32[8, 6] (init=normal) [tp, -]
//   %y = matmul %x, %w (transpose_b=true) {k: tp} : f32[4, 6]
//   backward:
//   %dx = matmul %dy, %w (transpose_b=true) of %y : f32[4, 8] grad %x
//   update:
//   %w2 = sgd %w, %dw (rate=0.1) : f32[8, 6]
//   output %y [-, -]
//   send %y
//   update %w <- %w2
//
// Types of compute nodes may be left out: they are inferred, and checked where they are written. Steps read
// `%2 = all_gather %1 dim 0 over tp`. `@1` behind a strategy or layout means the second mesh. In the full
// form of a program each value says what it is a part of: `: f32[2, 6] as [4, 6] [tp, -]`. A node that runs
// together with the one above it is marked: `+ %3 = relu %2`; one that does again what a forward node has done:
// `recomputed %3 = relu %2`; one that runs, or lies, in memory of the host: `host %4 = relu %3`. The level is not written: a network with a mesh is planned, and who reads a program
// (lower/program_text.h) knows that it is one.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct TextOptions {
  bool layouts = true;    // strategies, layouts and meshes; what a program needs to be read again
  bool gradients = true;  // `of` and `grad` of backward nodes
};

std::string to_text(const Graph& graph, const TextOptions& options = {});

/// A network, or with meshes a planned graph.
/// Throws: Error that names the line, or the value that only programs have.
Graph parse_graph(std::string_view text);
/// The graph of a program. Throws: Error that names the line.
Graph parse_program_graph(std::string_view text);

}  // namespace shardwright
