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

}  // namespace shardwright
