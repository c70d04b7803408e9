// Kernels on images in blocks of channels, [batch, channels / lanes, rows, columns, lanes].
//
// Their innermost loops run over the lanes of a pixel, which make one or two vectors: the number is known when they
// are compiled. Where the sums of a pixel are kept over the pixels, `#pragma GCC unroll 1` keeps the compiler from
// taking the loop for sixteen numbers before it could take it for one vector. (Vectors as a type of the language would
// be cut to what every x86-64 has before `vectorized` can say otherwise.)
#pragma once

#include <optional>

#include "shardwright/passes/formats.h"
#include "shardwright/runtime/backend/cpu/rows.h"

namespace shardwright::cpu {

/// Formats of these kernels, if `op` is one of theirs: any block of 8 or 16 channels for images, row-major for what
/// there is once per channel.
std::optional<Formats> normalization_formats(const OpDef& op, const KernelCall& call);
std::optional<Formats> pooling_formats(const OpDef& op, const KernelCall& call);

/// batch_norm made by rows of pixels; nothing if the call is another or its x is not in blocks.
Rows blocked_batch_norm_rows(const FusedCall& call);
/// The other calls of a batch norm, and those of pooling; nothing if the call is none of them or not in blocks.
PreparedKernel blocked_normalization(const FusedCall& call);
PreparedKernel blocked_pooling(const FusedCall& call, Workspace& workspace);

/// An image tensor in blocks.
struct Blocks {
  std::int64_t batch, blocks, rows, columns;

  Blocks(const Shape& shape, int lanes)
      : batch(shape[0]), blocks(shape[1] / lanes), rows(shape[2]), columns(shape[3]) {}
  std::int64_t pixels() const { return rows * columns; }
  std::int64_t planes() const { return batch * blocks; }
};

/// Channels in a block of an image format: 8, 16, or 0 if it is none of these.
int lanes_of(const Format& format);
/// The image formats with blocks.
std::vector<Format> image_formats();

/// Calls `use.template operator()<lanes, T>()` with 8 or 16 and the type of elements: float, F16 or BF16.
template <class F>
auto with_images(int lanes, DType dtype, F use) {
  switch (dtype) {
    case DType::f16:
      return lanes == 8 ? use.template operator()<8, F16>() : use.template operator()<16, F16>();
    case DType::bf16:
      return lanes == 8 ? use.template operator()<8, BF16>() : use.template operator()<16, BF16>();
    default: return lanes == 8 ? use.template operator()<8, float>() : use.template operator()<16, float>();
  }
}

/// Types of images that these kernels take.
inline bool is_for_blocks(DType dtype) { return is_floating(dtype) && dtype != DType::f64; }

}  // namespace shardwright::cpu
