// Readable comparison of tensors: a failure shows the first element that differs.
#pragma once

#include <gtest/gtest.h>

#include "shardwright/base/tensor.h"

namespace shardwright {

/// |got - want| <= tolerance * max(1, largest |want|) everywhere; 0 = equal. NaN equals NaN.
testing::AssertionResult is_close(const Tensor& got, const Tensor& want, double tolerance = 0);

}  // namespace shardwright
