// What choose_formats asks of a backend: in which memory formats its kernel for a call takes and makes values.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "shardwright/graph/op.h"

namespace shardwright {

/// Per operand and result of a call the format, or nothing: all of those lie in one format, the common one, which is
/// row-major, or one of `common`, or any if `takes_any`. Without operands and results: all are row-major.
struct Formats {
  std::vector<std::optional<Format>> operands = {};
  std::vector<std::optional<Format>> results = {};
  std::vector<Format> common = {};
  bool takes_any = false;
  bool has_kernel =
      true;  // false: the call runs on the host, and what it takes and makes goes there and comes back
};

/// Asked with one rank's call, whose tensors have no memory.
using FormatsOf = std::function<Formats(const OpDef& op, const KernelCall& call)>;

}  // namespace shardwright
