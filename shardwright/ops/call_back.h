// Functions of whoever uses the library, as a place in a graph.
#pragma once

#include <cstdint>
#include <functional>

#include "shardwright/base/tensor.h"

namespace shardwright {

/// Reads the first and fills the second; their types are those of the call.
using CalledBack = std::function<void(const TensorView& x, const TensorView& y)>;

/// Returns the number by which `call_back` knows `function`, from any thread, until the process ends; 0 copies.
std::int64_t add_call_back(CalledBack function);

}  // namespace shardwright
