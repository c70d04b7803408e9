// Convolutions and their gradients: each says whether it has a kernel for a call.
#pragma once

#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {

/// conv2d and its gradients as products of matrices, f32 and f64. Nothing if the call is none of them, is empty, or
/// has so few channels in a group that a product is not worth its columns.
PreparedKernel convolution_by_columns(const FusedCall& call, Workspace& workspace);

}  // namespace shardwright::cpu
