// Convolutions and their gradients: what they compute on this rank, and who computes it.
#pragma once

#include <optional>

#include "shardwright/ops/sliding.h"
#include "shardwright/passes/formats.h"
#include "shardwright/runtime/backend/cpu/rows.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {

enum class ConvolutionKind { forward, data_gradient, weight_gradient };

/// Which kind of convolution an operator is, if it is one.
std::optional<ConvolutionKind> convolution_kind(std::string_view op);

/// One rank's part. Its pads follow from where its window of the images begins.
struct ConvolutionGeometry {
  ops::Local rows, columns;
  std::int64_t batch, groups, in, out;  // channels of one group

  std::int64_t taps() const { return in * rows.kernel * columns.kernel; }
  std::int64_t row_count() const { return batch * rows.out; }
  bool is_empty() const {  // the product of all would be that of two tensors
    for (const std::int64_t n : {batch, groups, in, out, rows.out, columns.out, rows.in, columns.in})
      if (n == 0) return true;
    return false;
  }
};
ConvolutionGeometry convolution_geometry(const KernelCall& call, ConvolutionKind kind);

/// Formats in which oneDNN's convolution of this call is fastest: blocks of channels. None if it has no such.
Formats convolution_formats(const OpDef& op, const KernelCall& call);

/// oneDNN's convolution, all at once. Nothing unless the call lies in blocks.
Rows blocked_convolution(const FusedCall& call, Workspace& workspace);

/// Convolution as products of matrices, row-major; bf16 and f16 on copies in f32. Nothing if the call is empty, or has so few channels
/// in a group that a product is not worth its columns.
Rows convolution_by_columns(const FusedCall& call, Workspace& workspace);

}  // namespace shardwright::cpu
