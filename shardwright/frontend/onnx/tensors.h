// Tensors of an ONNX file: initializers and constants, whose elements lie in the file or beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "shardwright/base/tensor.h"
#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

/// The element type that number `type` of the format means. Throws: Error if there is none like it.
DType dtype_of_onnx(std::int32_t type);

/// Type and shape, once what the file holds of the tensor has been compared with them; nothing is read.
/// Throws: Error if the shape is over the limits, the bytes do not match it, or external data is not a part of a file
/// inside `folder`.
Type checked_type(const onnx::TensorProto& tensor, const std::filesystem::path& folder);

/// Whether its elements lie in another file.
bool is_external(const onnx::TensorProto& tensor);

/// Where an external tensor lies.
struct Extent {
  std::filesystem::path path;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t file_bytes = 0;
};
/// Nothing if the tensor is in the file itself. Throws: Error as checked_type does.
std::optional<Extent> external_extent(const onnx::TensorProto& tensor, const std::filesystem::path& folder);

/// The elements. Throws: Error as checked_type does.
Tensor read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& folder);

/// Throws: Error if `shape` has more dims or elements than limits.h allows, or a dim is below `least`.
void check_limits(const Shape& shape, std::int64_t least);

}  // namespace shardwright
