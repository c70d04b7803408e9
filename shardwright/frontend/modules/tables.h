// Embedding tables of recommenders: one for each column, all of equal size, in one parameter, so that whole tables, their rows or
// their columns can be split.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// Parameter `NAME.weight` [count, rows, width], uniform in +-1/sqrt(rows), whose gradient is rows (ops/row_updates.h); the operator
/// is called NAME.
struct Tables {
  struct Sizes {
    std::int64_t count = 1, rows = 1, width = 1;
  };
  /// What a bag is made of: the sum of the rows that its ids name, or their mean.
  enum class Pooling : std::uint8_t { sum, mean };
  Tables(const std::string& name, const Sizes& sizes, Pooling pooling);

  /// Shapes: integers [batch, count, ids of a bag] below rows, or below 0 for none -> [batch, count, width]
  Traced operator()(Traced ids) const;

  Operator lookup;
  Parameter weight;
};

/// Throws: Error that lists them.
Tables::Pooling pooling_called(std::string_view name);

}  // namespace shardwright
