// The two-layer transformer of the known answers (design.md), written with the operators at hand: a one-hot
// product for the embedding, norms and class-split cross entropy from primitives, the head tied to the table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright::testing {

struct TransformerSizes {
  std::int64_t batch = 8, sequence = 16, hidden = 16, heads = 4, head = 8, vocabulary = 32, ffn = 64,
               layers = 2;
  bool is_tied = true;
  std::int64_t rows() const { return batch * sequence; }
};

/// How it is split: `dp` axes over the batch, `tp` over heads, ffn and vocabulary, and whether activations
/// between blocks are sharded by sequence over tp too.
struct TransformerSplit {
  Mesh mesh;
  Axes dp;
  Axes tp;
  bool is_sequence_parallel = false;
};

struct Transformer {
  Graph graph;  // forward, with strategies and layouts if a split was given
  ValueId loss;
};

Transformer make_transformer(const TransformerSizes& sizes, const TransformerSplit& split,
                             DType dtype = DType::f32);

/// Random values for inputs and parameters; states start at zero. Token ids lie below the vocabulary.
std::map<std::string, Tensor> transformer_values(const Graph& graph, std::int64_t vocabulary,
                                                 std::uint64_t seed);

}  // namespace shardwright::testing
