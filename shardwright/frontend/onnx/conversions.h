// From operators of ONNX to ours, by family: a conversion reads a node and adds the calls that do its work.
//
// What a conversion does not read of a node (an attribute) or does not give (a result) is refused by the importer, so
// a conversion only says what it can do. `docs/onnx.md` has the table for users.
#pragma once

#include <string_view>
#include <vector>

#include "shardwright/frontend/onnx/node.h"

namespace shardwright::onnx_operators {

struct Conversion {
  std::string_view op;  // as ONNX calls it
  void (*convert)(OnnxNode&);
  bool is_linear =
      true;  // its work grows with its operands and results, so that constants may be computed at once
};

std::vector<Conversion> elementwise();  // arithmetic, activations, comparisons
std::vector<Conversion> functions();    // what is made of these by a formula
std::vector<Conversion> shapes();       // what moves elements, and what is known of shapes
std::vector<Conversion> constants();    // what makes values of nothing
std::vector<Conversion> reductions();   // sums, maxima, softmax, positions
std::vector<Conversion> layers();       // products, norms, dropout
std::vector<Conversion> losses();       // what is compared with labels

std::vector<Conversion> attentions();      // with masks and caches, rotary embedding
std::vector<Conversion> contractions();    // einsum, products along dims
std::vector<Conversion> convolutions();    // and transposed ones
std::vector<Conversion> gates();           // gated activations, linear attention
std::vector<Conversion> normalizations();  // by groups, channels, a dim
std::vector<Conversion> places();          // elements at indices
std::vector<Conversion> pools();           // of windows and of all
std::vector<Conversion> rearranged();      // blocks, edges
std::vector<Conversion> recurrent();       // step by step
std::vector<Conversion> resizing();        // images made larger or smaller
std::vector<Conversion> sampling();        // images read at places

/// All of them, sorted by name.
const std::vector<Conversion>& all();

/// The conversion of `op`. Throws: Error with near names.
const Conversion& find(std::string_view op);

}  // namespace shardwright::onnx_operators
