// What the values of a program are for.
#pragma once

#include <vector>

#include "shardwright/graph/rewrite.h"
#include "shardwright/lower/program.h"

namespace shardwright {

class BufferKinds {
 public:
  /// Of a program, which outlives this.
  explicit BufferKinds(const Graph& graph);

  BufferKind of(ValueId v) const;

 private:
  bool is_parameters_gradient(ValueId v) const;

  const Graph& graph_;
  Users users_;
  std::vector<bool> is_parameter_;  // per value: or a copy of one
  std::vector<bool> is_gradient_;   // per value: of a parameter
};

}  // namespace shardwright
