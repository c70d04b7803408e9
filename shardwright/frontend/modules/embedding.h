// Rows of a table by index.
#pragma once

#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// Parameter `NAME.weight` (rows, width), normal of deviation 0.02; the operator is called NAME.
struct Embedding {
  Embedding(const std::string& name, std::int64_t rows, std::int64_t width);

  /// Shapes: integers [...] below rows -> [..., width]
  Traced operator()(Traced indices) const;

  Operator gather;
  Parameter weight;
};

/// `rows`, which were looked up by `indices`, but that those of index `padding` learn nothing from it.
Traced without_learning(Traced rows, Traced indices, std::int64_t padding, const std::string& name);

}  // namespace shardwright
