// Numbers from which nothing can be learnt: where they are.
#pragma once

#include <map>
#include <string>

#include "shardwright/base/tensor.h"

namespace shardwright {

/// No element is NaN or infinite.
bool is_finite(const Tensor& t);

/// ` at [0, 3]`; nothing for a scalar.
std::string element_text(const Shape& shape, std::size_t index);

/// Where the first of `tensors` that is not finite has which number, `'input' holds inf at [0, 3]`; empty if all are.
std::string infinity_in(const std::map<std::string, Tensor>& tensors);

}  // namespace shardwright
